// Checks of the numbers that options take. CLI11's own checks accept "nan", and print the ends of a
// range with all digits of a double.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>

namespace fitstep {

// A number from `least` to `most`, both included.
CLI::Validator number_from(double least, double most);

// A seed: a whole number from 0 to 2^64 - 1.
CLI::Validator seed_number();

}  // namespace fitstep

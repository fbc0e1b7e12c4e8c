// Checks of the numbers that options take. CLI11's own let "nan" through, and print a range's ends
// with as many digits as a double has.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>

namespace fitstep {

// A number from `least` to `most`, both included.
CLI::Validator number_from(double least, double most);

// Of a random number generator: 0 .. 2^64 - 1.
CLI::Validator seed_number();

}  // namespace fitstep

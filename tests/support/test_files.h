// Files that a test makes in the temporary folder of all tests.
#pragma once

#include <string>
#include <string_view>

#include "fitstep/plan/plan.h"

namespace fitstep {

// Writes a file of this name, replacing an earlier one. Returns its path.
std::string write_file(const std::string& name, std::string_view content);

// The pyramid, and a plan of it.
std::string pyramid_file();
std::string plan_file(const Plan& plan);

// A folder of this name without files.
std::string empty_folder(const std::string& name);

std::string read_file(const std::string& path);

bool contains(std::string_view text, std::string_view part);

}  // namespace fitstep

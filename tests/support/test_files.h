// Files that a test makes for the command line, each in the test's own temporary folder.
#pragma once

#include <string>
#include <string_view>

namespace fitstep {

// Writes a file of this name, replacing an earlier one. Returns its path.
std::string write_file(const std::string& name, std::string_view content);

std::string read_file(const std::string& path);

bool contains(std::string_view text, std::string_view part);

}  // namespace fitstep

#include "tests/support/test_files.h"

#include <gtest/gtest.h>

#include <fstream>
#include <ios>
#include <iterator>
#include <string>
#include <string_view>

namespace fitstep {

std::string write_file(const std::string& name, std::string_view content) {
  std::string path = testing::TempDir() + "fitstep_cli_test_" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace fitstep

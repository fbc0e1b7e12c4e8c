#include "tests/support/test_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <string>
#include <string_view>

#include "fitstep/plan/plan_file.h"
#include "tests/programs/pyramid.h"

namespace fitstep {

std::string write_file(const std::string& name, std::string_view content) {
  std::string path = testing::TempDir() + "fitstep_cli_test_" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string pyramid_file() { return write_file("pyramid.program", kPyramid); }

std::string plan_file(const Plan& plan) { return write_file("pyramid.plan", print_plan(plan)); }

std::string empty_folder(const std::string& name) {
  std::string folder = testing::TempDir() + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  return folder;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace fitstep

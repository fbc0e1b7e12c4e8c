#include "cli/files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iterator>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "cli/block_file.h"
#include "cli/command.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/plan_file.h"
#include "fitstep/program/packed.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"

namespace fitstep {
namespace {

Error misplaced(const std::string& path, const char* found, const char* wanted) {
  return Error{ErrorCode::BadInput,
               fmt::format("{} is a {} file; give a {} file in its place", path, found, wanted)};
}

Error in_file(const std::string& path, const Error& error) {
  return Error{error.code, fmt::format("{}: {}", path, error.message)};
}

// The file's text, unpacked if zstd has packed it.
Result<std::string> read_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {  // Reading a folder would throw.
    return Error{ErrorCode::BadInput, fmt::format("{} is a folder; give a file", path)};
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Error{ErrorCode::BadInput,
                 fmt::format("cannot open {}: {}", path, std::strerror(errno))};
  }
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.empty()) return Error{ErrorCode::BadInput, fmt::format("{} is empty", path)};
  if (!is_packed(text)) return text;
  Result<std::string> unpacked = unpack(text);
  if (unpacked.has_value()) return std::move(unpacked).value();
  return in_file(path, unpacked.error());
}

}  // namespace

Result<Program> load_program(const std::string& path) {
  FITSTEP_TRY(const std::string text, read_file(path));
  Result<Program> program = parse_program(text);
  if (program.has_value()) return program;
  if (parse_plan(text).has_value()) return misplaced(path, "plan", "program");
  return in_file(path, program.error());
}

Result<Plan> load_plan(const std::string& path) {
  FITSTEP_TRY(const std::string text, read_file(path));
  Result<Plan> plan = parse_plan(text);
  if (plan.has_value()) return plan;
  if (text.starts_with("fitstep program")) return misplaced(path, "program", "plan");
  return in_file(path, plan.error());
}

Result<Machine> load_machine_file(const std::string& path) {
  FITSTEP_TRY(const std::string text, read_file(path));
  Result<Machine> machine = parse_machine(text);
  if (!machine.has_value()) return in_file(path, machine.error());
  return machine;
}

Status check_folder(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (folder.empty() || std::filesystem::is_directory(folder, ignored)) return Done{};
  return Error{ErrorCode::BadInput,
               fmt::format("cannot write {}: there is no folder {}", path, folder.string())};
}

Status save_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (file) return Done{};
  return Error{ErrorCode::BadInput, fmt::format("cannot write {}: {}", path, std::strerror(errno))};
}

Result<BlockFile> load_blocks(const std::string& path) {
  FITSTEP_TRY(const std::string text, read_file(path));
  Result<BlockFile> file = parse_blocks(text);
  if (!file.has_value()) return in_file(path, file.error());
  return file;
}

Result<std::variant<Program, Plan>> load_any(const std::string& path) {
  FITSTEP_TRY(const std::string text, read_file(path));
  if (text.starts_with("fitstep")) {
    Result<Program> program = parse_program(text);
    if (!program.has_value()) return in_file(path, program.error());
    return std::variant<Program, Plan>(std::move(program).value());
  }
  if (text.starts_with('{')) {
    Result<Plan> plan = parse_plan(text);
    if (!plan.has_value()) return in_file(path, plan.error());
    return std::variant<Program, Plan>(std::move(plan).value());
  }
  return Error{ErrorCode::BadInput,
               fmt::format("{}: neither a program (a program begins with \"fitstep program\") nor "
                           "a plan (a plan begins with \"{{\")",
                           path)};
}

Answer bad_input(const Error& error) {
  return Answer{ExitCode::BadInput, "", "fitstep: " + error.message + "\n"};
}

}  // namespace fitstep

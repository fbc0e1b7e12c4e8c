// Reads the files of the verbs: a program, a plan, a machine or blocks. Every error begins with
// the file's name.
#pragma once

#include <string>
#include <variant>

#include "cli/block_file.h"
#include "cli/command.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

Result<Program> load_program(const std::string& path);
Result<Plan> load_plan(const std::string& path);
Result<Machine> load_machine_file(const std::string& path);

// Error: the folder of `path` does not exist. Ask before long work.
Status check_folder(const std::string& path);

// Replaces a file that exists.
Status save_text(const std::string& path, const std::string& text);

Result<BlockFile> load_blocks(const std::string& path);

// A program or a plan: the file's first word decides.
Result<std::variant<Program, Plan>> load_any(const std::string& path);

Answer bad_input(const Error& error);

}  // namespace fitstep

// Program <-> text file: one record a line, versioned, streamed.
//
// Short enough to write tests in, and 100,000 ops load in under a second. docs/program-format.md
// describes it. print_program and parse_program are inverse to each other.
#pragma once

#include <string>
#include <string_view>

#include "fitstep/base/result.h"
#include "fitstep/program/program.h"

namespace fitstep {

std::string print_program(const Program& program);

// Errors name the line and the word. The result is validated.
Result<Program> parse_program(std::string_view text);

// 16 hex digits that depend on everything that a plan depends on except times (not on names of
// storages, sources or the program's own name).
std::string hash_program(const Program& program);

}  // namespace fitstep

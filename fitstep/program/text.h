// Program <-> text file: one record a line, versioned, streamed.
//
// Tests can write it by hand, and 100,000 ops load in under a second.
// docs/reference/program-format.md describes it. parse_program(print_program(p)) gives p back.
#pragma once

#include <string>
#include <string_view>

#include "fitstep/base/result.h"
#include "fitstep/program/program.h"

namespace fitstep {

std::string print_program(const Program& program);

// Errors name the line and the word. The result is validated.
Result<Program> parse_program(std::string_view text);

// 16 hex digits. They depend on everything that a plan's validity depends on, but not on times and
// names.
std::string hash_program(const Program& program);

}  // namespace fitstep

// Machine profiles that come with fitstep, by name: GPUs by their published figures, and the unit
// machine of the tests.
//
//   profiles/a100-40gb.json --CMake--> this library: found wherever the command runs
#pragma once

#include <span>
#include <string_view>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {

struct Profile {
  std::string_view name;  // Of its file, without ".json".
  std::string_view json;
};

// In order of their names.
std::span<const Profile> profiles();

// Errors: no profile has this name; the sentence lists those that there are.
Result<Machine> named_machine(std::string_view name);

}  // namespace fitstep

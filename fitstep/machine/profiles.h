// Machine profiles that come with fitstep: GPUs with their published figures, and the unit machine
// of the tests.
//
//   profiles/a100-40gb.json --CMake--> this library: no file is needed at run time
#pragma once

#include <span>
#include <string_view>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {

struct Profile {
  std::string_view name;  // Its file's name without ".json".
  std::string_view json;
};

// By name.
std::span<const Profile> profiles();

// Error: no profile has this name; the message lists all names.
Result<Machine> named_machine(std::string_view name);

}  // namespace fitstep

#include "fitstep/machine/profiles.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {

Result<Machine> named_machine(std::string_view name) {
  std::string names;
  for (const Profile& profile : profiles()) {
    if (profile.name == name) return parse_machine(std::string(profile.json));
    names += names.empty() ? "" : ", ";
    names += profile.name;
  }
  return Error{ErrorCode::BadInput,
               fmt::format("no machine profile is named \"{}\"; the profiles are {}", name, names)};
}

}  // namespace fitstep

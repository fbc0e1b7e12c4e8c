// Plan <-> file (JSON, one action a line). docs/plan-format.md describes it.
//
// The file carries a checksum over its content, so a cut-off or hand-edited file is an error and
// not a wrong plan.
#pragma once

#include <string>
#include <string_view>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"

namespace fitstep {

std::string print_plan(const Plan& plan);

// Errors: cut off, another format version, a field that is missing or of the wrong type, a checksum
// that does not match.
Result<Plan> parse_plan(std::string_view text);

}  // namespace fitstep

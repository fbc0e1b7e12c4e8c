// Plan <-> file (JSON, one action a line). docs/reference/plan-format.md describes it.
//
// The file has a checksum over its content: a cut-off or edited file is an error, not a wrong plan.
#pragma once

#include <string>
#include <string_view>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"

namespace fitstep {

std::string print_plan(const Plan& plan);

// Errors: the file is cut off or has another format version; a field is missing or of the wrong
// type; the checksum does not match.
Result<Plan> parse_plan(std::string_view text);

}  // namespace fitstep

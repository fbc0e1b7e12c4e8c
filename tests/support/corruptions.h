// A plan with one thing changed, for every field of a plan: what a verifier must see through.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct Corruption {
  std::string field;  // "residency.offset_bytes"
  Plan plan;
};

// Several per field and place, by seed; all of them differ from the plan in that field only (an
// offset takes the offsets of the requests along that become the residency).
std::vector<Corruption> corruptions(const Program& program, const Plan& plan, uint64_t seed);

}  // namespace fitstep

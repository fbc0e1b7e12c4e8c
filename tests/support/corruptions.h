// Plans with one field changed, for every field of a plan: the verifier must notice each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct Corruption {
  const char* kind = "";  // "address"
  const char* what = "";  // "of a residency"
  Plan plan;
};

struct CorruptOptions {
  uint64_t seed = 0;
  size_t one_in = 1;  // Makes one in this many, at random: for large plans.
};

// Shows one corruption after another: several per field and place, by seed. Each differs from the
// plan in that one thing only (a residency's address takes along the requests that become it; a
// missing recompute, its readers).
void corrupt(const Program& program, const Plan& plan, const CorruptOptions& options,
             const std::function<void(const Corruption&)>& visit);

}  // namespace fitstep

// Plans made by the planner, for many programs and each mix of moves. The verifier must accept
// them; tests then corrupt them.
//
//   programs   golden ones, chains, random ones       mixes   keep all, recompute, offload, both
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct GoodPlan {
  std::string name;  // "recompute chain 3"
  Program program;
  Plan plan;
};

// `count` plans per mix: one of each program in `golden` where the mix has one, then a few chains,
// then random programs. A plan of a mix makes the moves of that mix, and each of them.
std::vector<GoodPlan> good_plans(const std::vector<Program>& golden, size_t count);

}  // namespace fitstep

// The executor walks a plan: it decides nothing, it obeys.
//
//   lane compute   f0   f1   f2   b2   f1'  b1   b0     one action after another, each handed to
//                  |    |    |    |    |    |    |      the kernels, which were made ready before
#pragma once

#include <cstdint>
#include <optional>

#include "fitstep/plan/plan.h"

namespace fitstep {

// What executes actions. Everything that can be decided before a step has been decided when these
// are called: they allocate nothing and look nothing up.
class Kernels {
 public:
  Kernels() = default;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  virtual ~Kernels() = default;

  // `position` is the action's on the compute lane.
  virtual Status run(int32_t position) = 0;
  virtual Status copy(int32_t position) = 0;
};

struct Stopped {
  int32_t position = 0;  // The action that failed; those before it have taken effect.
  Error error;
};

// Runs one step. None when all of it ran.
// REQUIRES: the plan was verified, and has actions on the compute lane only.
std::optional<Stopped> execute(const Plan& plan, Kernels& kernels);

}  // namespace fitstep

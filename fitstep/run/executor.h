// The executor walks a plan: it decides nothing, it obeys.
//
//   lane compute    f0   f1   f2   b2   f1'  b1   b0     one action after another, each handed to
//                   |    |    |    |    |    |    |      the kernels, which were made ready before
//   lane evict        `->[ a0 ]                ^         the device's: the executor tells it what
//   lane prefetch           `->[ a0 ]----------'         has ended, and waits for what an op needs
//
// When it returns all lanes are at their end, or have stopped, and nothing is in flight.
#pragma once

#include <cstdint>
#include <optional>

#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"

namespace fitstep {

// What executes actions of the compute lane. Everything that can be decided before a step has been
// decided when these are called: they allocate nothing and look nothing up.
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
  Lane lane = Lane::Compute;
  int32_t position = 0;  // The action of that lane that failed.
  // Actions of the compute lane before this one have taken effect, those behind it have not begun.
  int32_t compute_position = 0;
  Error error;
};

// Runs one step. None when all of it ran. Where an action fails, every lane stops in front of its
// next one.
//
// REQUIRES: the plan was verified. `lanes` are those of this plan, or null where it has actions on
// the compute lane only; then there is no other thread and no lock.
std::optional<Stopped> execute(const Plan& plan, Kernels& kernels, CopyLanes* lanes);

}  // namespace fitstep

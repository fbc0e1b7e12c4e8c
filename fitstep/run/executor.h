// The executor runs a plan and decides nothing itself.
//
//   lane compute    f0   f1   f2   b2   f1'  b1   b0     hands each action, in order, to kernels
//                   |    |    |    |    |    |    |      that were prepared before the step
//   lane evict        `->[ a0 ]                ^         lanes of the device: the executor reports
//   lane prefetch           `->[ a0 ]----------'         ended ops, and waits for marks of copies
//
// When execute() returns, all lanes have ended or stopped, and no copy is in flight.
#pragma once

#include <cstdint>
#include <optional>

#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"

namespace fitstep {

// Executes actions of the compute lane. All decisions are made before the step: these calls
// allocate nothing and look nothing up.
class Kernels {
 public:
  Kernels() = default;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  virtual ~Kernels() = default;

  // `position`: of the action on the compute lane.
  virtual Status run(int32_t position) = 0;
  virtual Status copy(int32_t position) = 0;
};

struct Stopped {
  Lane lane = Lane::Compute;
  int32_t position = 0;  // The action that failed.
  // Compute actions before this one have ended; later ones have not begun.
  int32_t compute_position = 0;
  Error error;
};

// Runs one step. Returns none if all actions ran. If an action fails, every lane stops before its
// next action.
//
// REQUIRES: the plan was verified. `lanes` are the plan's; null if the plan has compute actions
// only: then there are no other threads and no locks.
std::optional<Stopped> execute(const Plan& plan, Kernels& kernels, CopyLanes* lanes);

}  // namespace fitstep

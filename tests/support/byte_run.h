// Runs a plan on real bytes (byte_machine.h) in one of the orders that its waits allow, by seed:
// the oracle for tests of the verifier.
#pragma once

#include <cstdint>
#include <string>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

struct ByteRun {
  int64_t arena_bytes = 0;  // Of every tier.
  uint64_t seed = 0;        // Chooses an order that the waits allow.
};

// The first damage: a read of wrong bytes, a block outside the arena, an invalid id, a deadlock of
// lanes, or a home with wrong final bytes. Empty for a correct run.
//
// REQUIRES: validate(program) holds. The plan may be anything.
std::string damage(const Program& program, const Plan& plan, const ByteRun& options);

}  // namespace fitstep

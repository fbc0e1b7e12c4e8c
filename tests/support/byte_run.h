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
  uint64_t seed = 0;        // Which of the orders that waits allow.
};

// What goes wrong first: a read that sees other bytes, a block outside the arena, an id that is
// none, lanes that wait for each other, a home that is not as the program leaves it. Empty for a
// run that does what the program does.
//
// REQUIRES: validate(program) holds. The plan may be anything.
std::string damage(const Program& program, const Plan& plan, const ByteRun& options);

}  // namespace fitstep

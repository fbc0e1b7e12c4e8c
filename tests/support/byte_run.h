// Runs a plan on real bytes, with everything against it: the oracle for tests of the verifier.
//
//   memory that nobody has yet      garbage
//   a scratch block or an output    garbage from its position in the kernel on, and must keep it
//   what has been released          garbage at once
//   actions of different lanes      begin and end in any order that waits allow, by seed
//
// The content of a storage's version is a token in every byte. An op compares what it reads with
// the version that the program had there, at its begin and at its end; then it writes the tokens of
// what it makes. Nothing here knows lifetimes or happens-before: damage shows or it does not.
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

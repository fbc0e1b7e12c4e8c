// Runs a plan on real bytes (byte_machine.h) in every order that its waits allow.
//
//                      begin f ---- end f ---- ...
//                     /                   `
//   start -- begin e <                     >-- begin f, end e: reached twice, looked at once
//                     `                   /
//                      end e ---- begin f ---- ...
//
// A state is the position of each lane and the content of every byte; equal states are visited
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

inline constexpr size_t kMostActions = 12;  // Of a lane; plans with more have too many states.

struct Exploration {
  std::string damage;    // In some order; empty if there is none.
  int64_t states = 0;    // Visited states.
  bool is_whole = true;  // All states were visited, or damage was found.
};

// REQUIRES: validate(program) holds. The plan may be anything.
Exploration explore(const Program& program, const Plan& plan, int64_t arena_bytes);

}  // namespace fitstep

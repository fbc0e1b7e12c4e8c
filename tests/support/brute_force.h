// The fastest plan with addresses, found by trying all plans: the oracle for the planner.
//
// A shortest-path search over states: the address of every value, the values on the host, the next
// op, and the current action of each lane. It tries:
//
//   order        that of the values; runs again anywhere behind the first one, any number of them
//   forms        for each run, each of those with equal bits that do what it has to
//   addresses    every multiple of the unit, one block per value, fixed while the value stays; an
//                output may lie where the input it may take ends
//   stays        what a run has used stays for another one, or is dropped, or is evicted: at once,
//                or as soon as the lane is free, in any order; it is not read until it is back, so
//                evictions beside a use (early.h) may be faster than all that is tried
//   prefetches   in any order, at any end of another action
//
// This search has the addresses that all_plans.h leaves out, so least_time() is never more than its
// result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/values.h"
#include "tests/support/all_plans.h"

namespace fitstep {

struct BruteForce {
  int64_t room_bytes = 0;  // Of the arena, homes left out.
  int64_t unit_bytes = 1;  // Every size and address is a multiple of it.
  Moves moves;             // Homes stay where they are.
  int64_t below_ps = 0;    // Searches only faster plans; 0: all.
  size_t most_states = 2'000'000;
};

// REQUIRES: all times and copies take whole seconds, at most 15 of them; at most 12 values have
// bytes in the arena, at most 15 ops are there, each with at most one request, of scratch; the room
// is at most 31 units. The host tier holds everything.
LeastTime brute_force(const Values& values, const Machine& machine, const BruteForce& question);

}  // namespace fitstep

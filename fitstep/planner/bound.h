// Bounds: what no plan can beat, in bytes and in time.
//
//   floor         homes, and above them the largest working set of one op
//   compute       every op once, one after another
//   recompute cut at one tick, the bytes that do not fit have to be made again later: the cheapest
//                 of those idle across the tick, taken by recompute seconds per byte, fractions too
//
//                     |<-- capacity -->|<- excess ->|
//     idle across k   [ kept ................][ a7 ][ a9 ]      time >= compute + ps(a7) + ps(a9)
//
// Inputs of what is made again count as available, so the cut bound is below the truth. It holds
// for plans in the same order of ops; the floor holds in any order.
#pragma once

#include <cstdint>
#include <string>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/assemble.h"
#include "fitstep/planner/values.h"

namespace fitstep {

// Most bytes of the arena, homes left out, that must be there at once while the form runs.
int64_t working_set_bytes(const Program& program, const Form& form);

// Every op once in its fastest form of equal bits.
int64_t compute_bound_ps(const Program& program, const Machine& machine);

// What the plans that a bound speaks of may do besides keeping.
struct Moves {
  bool recompute = true;
  bool offload = false;
};

struct TimeBound {
  int64_t ps = 0;
  std::string name;  // Which bound, for which moves, from which start.
};

// The best of the bounds above for plans of at most `capacity_bytes`, homes included.
TimeBound time_bound(const Values& values, const Machine& machine, const Homes& homes,
                     int64_t capacity_bytes, const Moves& moves = {});

}  // namespace fitstep

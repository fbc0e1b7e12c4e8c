// Time bounds: what no plan can beat, in this order of ops.
//
//   compute   every op once, one after another
//   cut       at one tick, or one per micro-batch, what does not fit is away or is made again later
//
// Each says for which moves and from which start it holds, and at which tick it binds. They cover
// neither other orders of ops nor rates above the machine's.
#pragma once

#include <cstdint>
#include <string>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/assemble.h"
#include "fitstep/planner/needs.h"
#include "fitstep/planner/values.h"

namespace fitstep {

// What plans may do besides keeping everything.
struct Moves {
  bool recompute = true;
  bool offload = false;
};

struct TimeBound {
  int64_t ps = 0;
  std::string name;  // Which bound, for which moves, from which start.
  Tick tick = -1;    // Where it binds; -1 where it does not speak of one tick.
};

// The best bound for plans of at most `capacity_bytes`, homes included, that do nothing but what
// `moves` allows. Offload needs a link from the device to a second tier.
TimeBound time_bound(const Values& values, const Machine& machine, const Homes& homes,
                     int64_t capacity_bytes, const Moves& moves = {});

}  // namespace fitstep

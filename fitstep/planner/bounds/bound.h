// Time bounds: what no plan can beat, in this order of ops.
//
//   compute   every op once, one after another, in the fastest form that has room by itself
//   cut       at one tick, or one per micro-batch, what does not fit is away or is made again later
//   path      how early each op can start if bytes have to leave and come back in time
//
// Each says for which moves and from which start it holds, and at which tick it binds. They cover
// neither other orders of ops nor rates above the machine's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds/away.h"
#include "fitstep/planner/bounds/cut_bound.h"
#include "fitstep/planner/bounds/needs.h"
#include "fitstep/planner/values.h"

namespace fitstep {

// What plans may do besides keeping everything.
struct Moves {
  bool recompute = true;
  bool offload = false;
  // By storage: persistent ones that may be away within a step; empty if none may. They count as
  // mobile only where offload is possible.
  std::vector<char> is_mobile = {};
};

struct TimeBound {
  int64_t ps = 0;
  std::string name;  // Which bound, for which moves, from which start.
  Tick tick = -1;    // Where it binds; -1 where it does not speak of one tick.
};

// The best bounds for plans that do nothing but what `moves` allows, for any capacity. Offload
// needs a link from the device to a second tier. `order_name` says in the bound's name for which
// order, or orders, it holds.
class TimeBounds {
 public:
  TimeBounds(const Values& values, const Machine& machine, const Homes& homes, const Moves& moves,
             std::string order_name = "this order");

  // For plans of at most `capacity_bytes`, homes included. Never falls when there are fewer, but
  // for rounding: a picosecond in a hundred seconds.
  TimeBound at(int64_t capacity_bytes) const;

 private:
  // `needs` and what stands on them hold for plans with so much room.
  TimeBound best_of(const Needs& needs, const CutBounds& cuts, int64_t room_bytes) const;

  Moves moves_;
  std::string order_name_;
  Machine machine_;
  Away away_;
  Needs needs_;              // For any room,
  int64_t most_form_bytes_;  // that is at least so much; with less, some form is out of reach.
  int64_t home_bytes_;       // Of what never leaves.
  CutBounds cuts_;
};

TimeBound time_bound(const Values& values, const Machine& machine, const Homes& homes,
                     int64_t capacity_bytes, const Moves& moves = {});

}  // namespace fitstep

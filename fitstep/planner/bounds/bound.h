// Time bounds: no plan with this order of ops is faster.
//
//   every op once      one after another, in the fastest form that fits by itself
//   memory at tick 16  the cut bound: at that tick, or at one per micro-batch, bytes that do not
//                      fit are away or recomputed
//   waits for copies   the path bound: how early each op can start if bytes have to leave and come
//                      back in time
//
// Each bound says for which moves and orders of ops it holds. It does not hold for other orders, or
// for a machine with faster links. With homes off the device, a bound is for steps that follow each
// other: what is on the host when one ends is there when the next begins.
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
  // By storage: whether it is persistent and may be away within a step; empty if none may. Counts
  // only if offload is possible.
  std::vector<char> is_mobile = {};
};

// As certificates say it: "recompute + offload + homes off the device".
std::string describe(const Moves& moves);

struct TimeBound {
  int64_t ps = 0;
  std::string name;  // Which bound, for which orders and moves.
  Tick tick = -1;    // Where it binds; -1 if it does not bind at one tick.
};

// The best bounds for plans that use no other moves than `moves`, for any capacity. Offload needs a
// link from the device to a second tier. `order_name` is the part of the bound's name that says for
// which order or orders it holds.
class TimeBounds {
 public:
  TimeBounds(const Values& values, const Machine& machine, const Homes& homes, const Moves& moves,
             std::string order_name = "this order of ops");

  // For plans of at most `capacity_bytes`, homes included. With a smaller capacity the bound never
  // falls, except for rounding: a picosecond in a hundred seconds.
  TimeBound at(int64_t capacity_bytes) const;

 private:
  // `needs` and `cuts` hold for plans with `room_bytes`.
  TimeBound best_of(const Needs& needs, const CutBounds& cuts, int64_t room_bytes) const;

  Moves moves_;
  std::string order_name_;
  Machine machine_;
  Away away_;
  Needs needs_;              // For any room of at least most_form_bytes_.
  int64_t most_form_bytes_;  // With less room some form does not fit.
  int64_t home_bytes_;       // Of homes that never leave the device.
  CutBounds cuts_;
};

TimeBound time_bound(const Values& values, const Machine& machine, const Homes& homes,
                     int64_t capacity_bytes, const Moves& moves = {});

}  // namespace fitstep

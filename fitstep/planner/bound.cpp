#include "fitstep/planner/bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/assemble.h"
#include "fitstep/planner/away.h"
#include "fitstep/planner/cut_bound.h"
#include "fitstep/planner/needs.h"
#include "fitstep/planner/values.h"

namespace fitstep {
namespace {

std::string describe(const Moves& moves, const Away& away) {
  if (away.is_possible) {
    return moves.recompute ? "recompute + offload, cold start" : "offload, cold start";
  }
  return moves.recompute ? "recompute, warm start" : "none, warm start";
}

}  // namespace

TimeBounds::TimeBounds(const Values& values, const Machine& machine, const Homes& homes,
                       const Moves& moves)
    : needs_(values, machine),
      moves_(moves),
      away_(moves.offload ? make_away(machine) : Away()),
      home_bytes_(homes.size_bytes),
      cuts_(needs_, moves.recompute) {}

TimeBound TimeBounds::at(int64_t capacity_bytes) const {
  const std::string which = describe(moves_, away_);
  TimeBound best{.ps = needs_.time_ps(0, needs_.tick_count()),
                 .name = fmt::format("compute (any order, moves: {})", which)};
  const CutBounds::Best cut = cuts_.at(capacity_bytes - home_bytes_, away_);
  if (cut.ps > best.ps) {
    best = {.ps = cut.ps,
            .name = fmt::format("cut at tick {} (this order, moves: {})", cut.tick, which),
            .tick = cut.tick};
  }
  return best;
}

TimeBound time_bound(const Values& values, const Machine& machine, const Homes& homes,
                     int64_t capacity_bytes, const Moves& moves) {
  return TimeBounds(values, machine, homes, moves).at(capacity_bytes);
}

}  // namespace fitstep

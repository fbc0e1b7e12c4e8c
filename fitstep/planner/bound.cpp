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

std::string describe(const Setting& setting) {
  if (setting.away.is_possible) {
    return setting.may_recompute ? "recompute + offload, cold start" : "offload, cold start";
  }
  return setting.may_recompute ? "recompute, warm start" : "none, warm start";
}

}  // namespace

TimeBound time_bound(const Values& values, const Machine& machine, const Homes& homes,
                     int64_t capacity_bytes, const Moves& moves) {
  const Needs needs(values, machine);
  const Setting setting{.room_bytes = capacity_bytes - homes.size_bytes,
                        .away = moves.offload ? make_away(machine) : Away(),
                        .may_recompute = moves.recompute};
  const std::string which = describe(setting);
  TimeBound best{.ps = needs.time_ps(0, needs.tick_count()),
                 .name = fmt::format("compute (any order, moves: {})", which)};
  const CutBound cut = cut_bound(needs, setting);
  if (cut.ps > best.ps) {
    best = {.ps = cut.ps,
            .name = fmt::format("cut at tick {} (this order, moves: {})", cut.tick, which),
            .tick = cut.tick};
  }
  return best;
}

}  // namespace fitstep

#include "fitstep/planner/bounds/bound.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds/away.h"
#include "fitstep/planner/bounds/cut_bound.h"
#include "fitstep/planner/bounds/needs.h"
#include "fitstep/planner/bounds/path_bound.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/values.h"

namespace fitstep {
namespace {

std::span<const char> mobile_ones(const Moves& moves, const Away& away) {
  return away.is_possible ? std::span<const char>(moves.is_mobile) : std::span<const char>();
}

int64_t mobile_bytes(const Values& values, std::span<const char> is_mobile) {
  int64_t sum_bytes = 0;
  for (size_t i = 0; i < is_mobile.size(); ++i) {
    if (is_mobile[i] != 0) sum_bytes += values.storage(StorageId(i)).size_bytes;
  }
  return sum_bytes;
}

}  // namespace

std::string describe(const Moves& moves) {
  if (!moves.offload) return moves.recompute ? "recompute" : "keep";
  const char* homes = moves.is_mobile.empty() ? "" : " + homes off the device";
  return fmt::format("{}offload{}", moves.recompute ? "recompute + " : "", homes);
}

TimeBounds::TimeBounds(const Values& values, const Machine& machine, const Homes& homes,
                       const Moves& moves, std::string order_name)
    : moves_(moves),
      order_name_(std::move(order_name)),
      machine_(machine),
      away_(moves.offload ? make_away(machine) : Away()),
      needs_(values, machine, mobile_ones(moves, away_)),
      most_form_bytes_(most_form_bytes(values)),
      home_bytes_(homes.size_bytes + homes.host_size_bytes -
                  mobile_bytes(values, mobile_ones(moves, away_))),
      cuts_(needs_, moves.recompute) {}

TimeBound TimeBounds::at(int64_t capacity_bytes) const {
  const int64_t room_bytes = capacity_bytes - home_bytes_;
  TimeBound best = best_of(needs_, cuts_, room_bytes);
  if (room_bytes >= most_form_bytes_) return best;
  const Needs fitting(needs_.values(), machine_, mobile_ones(moves_, away_), room_bytes);
  TimeBound other = best_of(fitting, CutBounds(fitting, moves_.recompute), room_bytes);
  return other.ps > best.ps ? std::move(other) : std::move(best);
}

TimeBound TimeBounds::best_of(const Needs& needs, const CutBounds& cuts, int64_t room_bytes) const {
  const std::string which = describe(
      {.recompute = moves_.recompute, .offload = away_.is_possible, .is_mobile = moves_.is_mobile});
  TimeBound best{.ps = needs.time_ps(0, needs.tick_count()) + needs.optional_ps(),
                 .name = fmt::format("every op once (any order of ops, moves: {})", which)};
  const auto raise = [&](int64_t ps, const std::string& name, Tick tick) {
    if (ps <= best.ps) return;
    best = {.ps = ps,
            .name = fmt::format("{} ({}, moves: {})", name, order_name_, which),
            .tick = tick};
  };
  const CutBounds::Best cut = cuts.at(room_bytes, away_);
  raise(cut.ps, fmt::format("memory at tick {}", cut.tick), cut.tick);
  if (has("path bound") && away_.is_possible && !moves_.recompute) {
    raise(path_bound_ps(needs, room_bytes, away_), "waits for copies", -1);
  }
  return best;
}

TimeBound time_bound(const Values& values, const Machine& machine, const Homes& homes,
                     int64_t capacity_bytes, const Moves& moves) {
  return TimeBounds(values, machine, homes, moves).at(capacity_bytes);
}

}  // namespace fitstep

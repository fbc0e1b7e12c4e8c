#include "fitstep/planner/bounds/path_bound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/bounds/away.h"
#include "fitstep/planner/bounds/needs.h"

namespace fitstep {
namespace {

constexpr Tick kStarts = 200;

class Paths {
 public:
  Paths(const Needs& needs, int64_t room_bytes, const Away& away)
      : needs_(needs),
        room_bytes_(room_bytes),
        away_(away),
        start_ps_(static_cast<size_t>(needs.tick_count()) + 1, 0),
        change_(start_ps_.size(), 0) {}

  int64_t run() {
    const Tick count = needs_.tick_count();
    const Tick stride = std::max<Tick>(1, count / kStarts);
    for (Tick tick = 0; tick <= count; ++tick) {
      if (tick > 0) raise(tick, at(tick - 1) + needs_.time_ps(tick - 1, tick));
      if (tick % stride != 0 || tick == count) continue;
      add_prefetches(tick);
      add_evicts(tick);
    }
    return start_ps_.back();
  }

 private:
  int64_t at(Tick tick) const { return start_ps_[static_cast<size_t>(tick)]; }
  void raise(Tick tick, int64_t ps) {
    int64_t& start_ps = start_ps_[static_cast<size_t>(tick)];
    start_ps = std::max(start_ps, std::min(ps, kLongestPs));
  }

  void add_prefetches(Tick begin) {
    if (needs_.load_bytes(begin) <= room_bytes_) return;
    std::fill(change_.begin(), change_.end(), 0);
    for (const IdleSpan& span : needs_.spans()) {
      if (span.begin > begin) break;
      if (span.end > begin) change_[static_cast<size_t>(span.end)] += span.size_bytes;
    }
    const int64_t end_ps = at(begin) + needs_.time_ps(begin, begin + 1);
    int64_t excess_bytes = needs_.working_bytes(begin) - room_bytes_;
    for (Tick tick = begin + 1; tick < needs_.tick_count(); ++tick) {
      const int64_t change_bytes = change_[static_cast<size_t>(tick)];
      excess_bytes += change_bytes;
      if (change_bytes == 0 || excess_bytes <= 0) continue;
      raise(tick,
            end_ps + whole_ps(static_cast<double>(excess_bytes) * away_.host.prefetch_ps_per_byte));
    }
  }

  void add_evicts(Tick begin) {
    std::fill(change_.begin(), change_.end(), 0);
    for (const IdleSpan& span : needs_.spans()) {
      if (needs_.values()[span.value].made < begin) continue;
      change_[static_cast<size_t>(span.begin)] += span.size_bytes;
      change_[static_cast<size_t>(span.end)] -= span.size_bytes;
    }
    const int64_t end_ps = at(begin) + needs_.time_ps(begin, begin + 1);
    int64_t idle_bytes = 0;
    for (Tick tick = begin + 1; tick < needs_.tick_count(); ++tick) {
      idle_bytes += change_[static_cast<size_t>(tick)];
      const int64_t excess_bytes = idle_bytes + needs_.working_bytes(tick) - room_bytes_;
      if (excess_bytes <= 0) continue;
      raise(tick,
            end_ps + whole_ps(static_cast<double>(excess_bytes) * away_.host.evict_ps_per_byte));
    }
  }

  const Needs& needs_;
  const int64_t room_bytes_;
  const Away& away_;
  std::vector<int64_t> start_ps_;  // By tick: the op at this tick starts no sooner.
  std::vector<int64_t> change_;    // Scratch, by tick.
};

}  // namespace

int64_t path_bound_ps(const Needs& needs, int64_t room_bytes, const Away& away) {
  return Paths(needs, room_bytes, away).run();
}

}  // namespace fitstep

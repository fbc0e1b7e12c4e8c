#include "fitstep/planner/values/homes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/request.h"
#include "fitstep/planner/values/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr std::array kShares = {0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0};  // Of all homes' bytes.

// What it would cost in each step to have this storage's home below.
struct Visits {
  StorageId storage;
  bool is_seen = false;  // No op can hide its first or last copy: it costs time.
  int32_t copies = 0;    // In the direction with more copies.
  uint32_t turn = 0;     // Order among equal costs: spreads copies evenly over the step.
};

// Counts visits: two uses belong to two visits if the storage would leave the device in between.
class Counter {
 public:
  explicit Counter(const Values& values)
      : values_(values), apart_(std::max<Tick>(values.tick_count() / 32, 2)) {
    of_.resize(values.program().storages.size());
  }

  std::vector<Visits> run() {
    for (Tick tick = 0; tick < values_.tick_count(); ++tick) {
      const Form& form = values_.op_at(tick).forms[0];
      for (const Read& read : form.reads) {
        if (read.kind != ReadKind::ShapeOnly) touch(read.storage, tick, false);
      }
      for (const Write& write : form.writes) touch(write.storage, tick, true);
    }
    std::vector<Visits> visits;
    for (const StorageId storage : all_homes(values_.program())) {
      const Uses& uses = of_[storage.index()];
      const Tick edge = values_.tick_count() / 16;
      const bool is_late = uses.departures > 0 && uses.last >= values_.tick_count() - edge;
      const bool is_early = uses.first_read < edge;
      visits.push_back({.storage = storage,
                        .is_seen = is_late || is_early,
                        .copies = std::max(uses.arrivals, uses.departures),
                        .turn = reversed(uses.last == kNever ? 0 : uses.last)});
    }
    std::ranges::stable_sort(
        visits, {}, [](const Visits& it) { return std::tuple(it.is_seen, it.copies, it.turn); });
    return visits;
  }

 private:
  struct Uses {
    Tick first_read = kNever;  // The tick of the first use, if that is a read.
    Tick last = kNever;
    int32_t arrivals = 0;
    int32_t departures = 0;
    bool is_written = false;  // In the current visit.
  };

  void touch(StorageId storage, Tick tick, bool is_write) {
    Uses& uses = of_[storage.index()];
    if (uses.last == kNever || tick - uses.last > apart_) {
      const bool is_first = uses.last == kNever;
      if (!is_write || !is_first) ++uses.arrivals;
      if (!is_write && is_first) uses.first_read = tick;
      uses.is_written = false;
    }
    if (is_write && !uses.is_written) ++uses.departures;
    uses.is_written |= is_write;
    uses.last = tick;
  }

  // Reverses the bits (van der Corput's sequence): neighbours in time end far apart in order.
  static uint32_t reversed(Tick tick) {
    auto bits = static_cast<uint32_t>(tick);
    uint32_t result = 0;
    for (int i = 0; i < 32; ++i, bits >>= 1U) result = (result << 1U) | (bits & 1U);
    return result;
  }

  const Values& values_;
  Tick apart_;
  std::vector<Uses> of_;  // By storage.
};

}  // namespace

Homes make_homes(const Program& program, const PlanRequest& request,
                 std::span<const StorageId> below) {
  Homes homes;
  homes.offset_bytes.assign(program.storages.size(), -1);
  homes.is_below.assign(program.storages.size(), 0);
  for (const StorageId storage : below) homes.is_below[storage.index()] = 1;
  int64_t host_end_bytes = 0;
  for (const Home& home : request.homes) {
    const size_t i = home.storage.index();
    homes.offset_bytes[i] = home.offset_bytes;
    homes.is_below[i] = home.tier == kHostTier && program.storages[i].size_bytes > 0 ? 1 : 0;
    int64_t& end_bytes = home.tier == kHostTier ? host_end_bytes : homes.end_bytes;
    end_bytes = std::max(end_bytes, home.offset_bytes + program.storages[i].size_bytes);
  }
  const int64_t alignment_bytes = program.alignment_bytes;
  int64_t next_bytes = align_up(std::max(homes.end_bytes, request.bottom_bytes), alignment_bytes);
  int64_t host_next_bytes =
      align_up(std::max(host_end_bytes, request.host_bottom_bytes), kAlignmentBytes);
  for (size_t i = 0; i < program.storages.size(); ++i) {
    const Storage& storage = program.storages[i];
    if (!has_home(storage)) continue;
    const bool is_below = homes.is_below[i] != 0;
    (is_below ? homes.host_size_bytes : homes.size_bytes) += storage.size_bytes;
    if (homes.offset_bytes[i] >= 0) continue;
    int64_t& next = is_below ? host_next_bytes : next_bytes;
    homes.offset_bytes[i] = next;
    if (!is_below) homes.end_bytes = next + storage.size_bytes;
    next = align_up(next + storage.size_bytes, is_below ? kAlignmentBytes : alignment_bytes);
  }
  homes.bottom_bytes = next_bytes;
  homes.host_bottom_bytes = host_next_bytes;
  return homes;
}

std::vector<StorageId> all_homes(const Program& program) {
  std::vector<StorageId> homes;
  for (size_t i = 0; i < program.storages.size(); ++i) {
    const Storage& storage = program.storages[i];
    if (has_home(storage) && storage.size_bytes > 0) homes.push_back(StorageId(i));
  }
  return homes;
}

std::vector<std::vector<StorageId>> home_levels(const Values& values) {
  constexpr int64_t kWorthIt = 10'000;  // A home below 1/10,000 of all bytes is not worth a copy.
  std::vector<Visits> visits = Counter(values).run();
  int64_t all_bytes = 0;
  for (const Visits& it : visits) all_bytes += values.storage(it.storage).size_bytes;
  std::erase_if(visits, [&](const Visits& it) {
    return values.storage(it.storage).size_bytes < all_bytes / kWorthIt;
  });
  std::vector<std::vector<StorageId>> levels(1);
  std::vector<StorageId> level;
  int64_t bytes = 0;
  size_t next = 0;
  for (const double share : kShares) {
    const auto aim_bytes = static_cast<int64_t>(share * static_cast<double>(all_bytes));
    for (; next < visits.size() && (bytes < aim_bytes || share == 1.0); ++next) {
      level.push_back(visits[next].storage);
      bytes += values.storage(level.back()).size_bytes;
    }
    if (level.size() > levels.back().size()) levels.push_back(level);
  }
  return levels;
}

}  // namespace fitstep

#include "fitstep/report/pool_sizes.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/report/device_lives.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

constexpr int64_t kUnitBytes = 512;
constexpr int64_t kBaseBytes = 128 << 10;  // A base block is a multiple of this.

// Free blocks by address; free neighbours in one base block are merged.
class Pool {
 public:
  explicit Pool(bool merges) : merges_(merges) {}

  void grow(int64_t size_bytes) {
    const int64_t begin = size_bytes_;
    size_bytes_ += size_bytes;
    bases_.push_back(begin);
    give_back(begin, size_bytes);
  }
  int64_t size_bytes() const { return size_bytes_; }

  int64_t largest_free_bytes() const {
    int64_t most = 0;
    for (const auto& [begin, size] : free_) most = std::max(most, size);
    return most;
  }
  int64_t right_free_bytes() const { return free_.empty() ? 0 : free_.rbegin()->second; }

  std::optional<int64_t> take_best(int64_t size_bytes) {
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < size_bytes || (best != free_.end() && best->second <= it->second)) continue;
      best = it;
    }
    if (best == free_.end()) return std::nullopt;
    const auto [begin, size] = *best;
    free_.erase(best);
    if (size > size_bytes) free_.emplace(begin + size_bytes, size - size_bytes);
    return begin;
  }

  std::optional<int64_t> take_right(int64_t size_bytes) {
    if (right_free_bytes() < size_bytes) return std::nullopt;
    const auto last = std::prev(free_.end());
    last->second -= size_bytes;
    const int64_t begin = last->first + last->second;
    if (last->second == 0) free_.erase(last);
    return begin;
  }

  void give_back(int64_t begin, int64_t size_bytes) {
    const auto it = free_.emplace(begin, size_bytes).first;
    const auto next = std::next(it);
    if (next != free_.end() && it->first + it->second == next->first && may_join(next->first)) {
      it->second += next->second;
      free_.erase(next);
    }
    if (it == free_.begin()) return;
    const auto before = std::prev(it);
    if (before->first + before->second == it->first && may_join(it->first)) {
      before->second += it->second;
      free_.erase(it);
    }
  }

 private:
  bool may_join(int64_t edge) const { return merges_ || !std::ranges::binary_search(bases_, edge); }

  bool merges_;
  int64_t size_bytes_ = 0;
  std::vector<int64_t> bases_;  // Where base blocks begin.
  std::map<int64_t, int64_t> free_;
};

// Calls `fail` if a request finds no place; `fail` returns whether to try again.
template <class Fail>
void replay(const std::vector<PoolRequest>& requests, PoolRule rule, Pool& pool, Fail fail) {
  struct Taken {
    int64_t begin = 0;
    int64_t size_bytes = 0;
  };
  std::map<int32_t, Taken> taken;
  for (const PoolRequest& request : requests) {
    if (request.size_bytes == 0) {
      const Taken& it = taken.at(request.block);
      pool.give_back(it.begin, it.size_bytes);
      taken.erase(request.block);
      continue;
    }
    const bool is_right = rule == PoolRule::LongRight && request.is_long_lived;
    std::optional<int64_t> begin;
    while (true) {
      begin = is_right ? pool.take_right(request.size_bytes) : pool.take_best(request.size_bytes);
      if (begin) break;
      const int64_t free = is_right ? pool.right_free_bytes() : pool.largest_free_bytes();
      if (!fail(request.size_bytes, free)) return;
    }
    taken[request.block] = {.begin = *begin, .size_bytes = request.size_bytes};
  }
}

int64_t most_live_bytes(const std::vector<PoolRequest>& requests) {
  std::map<int32_t, int64_t> size_of;
  int64_t live = 0;
  int64_t most = 0;
  for (const PoolRequest& request : requests) {
    live += request.size_bytes > 0 ? request.size_bytes : -size_of.at(request.block);
    if (request.size_bytes > 0) size_of[request.block] = request.size_bytes;
    most = std::max(most, live);
  }
  return most;
}

int64_t exact_size(const std::vector<PoolRequest>& requests, PoolRule rule, int64_t size_bytes) {
  while (const std::optional<int64_t> more = missing_bytes(requests, rule, size_bytes)) {
    size_bytes += *more;
  }
  return size_bytes;
}

int64_t grown_size(const std::vector<PoolRequest>& requests, bool merges) {
  Pool pool(merges);
  replay(requests, PoolRule::BestFit, pool, [&](int64_t size_bytes, int64_t) {
    pool.grow(align_up(size_bytes, kBaseBytes));
    return true;
  });
  return pool.size_bytes();
}

}  // namespace

std::optional<int64_t> missing_bytes(const std::vector<PoolRequest>& requests, PoolRule rule,
                                     int64_t pool_bytes) {
  Pool pool(true);
  if (pool_bytes > 0) pool.grow(pool_bytes);
  std::optional<int64_t> missing;
  replay(requests, rule, pool, [&](int64_t size_bytes, int64_t free_bytes) {
    missing = size_bytes - free_bytes;
    return false;
  });
  return missing;
}

PoolSizes pool_sizes(const std::vector<PoolRequest>& requests) {
  const int64_t expected_bytes = most_live_bytes(requests);
  return {.expected_bytes = expected_bytes,
          .best_fit_bytes = exact_size(requests, PoolRule::BestFit, expected_bytes),
          .long_right_bytes = exact_size(requests, PoolRule::LongRight, expected_bytes),
          .growing_bytes = grown_size(requests, false),
          .growing_merged_bytes = grown_size(requests, true)};
}

std::vector<PoolRequest> pool_requests(const Program& program, const Plan& plan,
                                       const Timeline& timeline) {
  struct Event {
    Tick position = 0;
    PoolRequest request;
  };
  const Tick middle = static_cast<Tick>(plan.lane(Lane::Compute).size()) / 2;
  std::vector<Event> events;
  int32_t block = 0;
  for (const DeviceLife& life : device_lives(program, plan, timeline)) {
    if (!life.residency.is_none() && plan.residencies[life.residency.index()].is_home) continue;
    const int64_t size_bytes = align_up(life.size_bytes, kUnitBytes);
    const bool is_long = life.live.begin < middle && life.live.end > middle;
    events.push_back({life.live.begin, {block, size_bytes, is_long && !life.goes_by_copy}});
    events.push_back({life.live.end, {block, 0, false}});
    ++block;
  }
  // At a position, frees come before requests.
  std::ranges::stable_sort(events, {}, [](const Event& event) {
    return std::pair(event.position, event.request.size_bytes > 0);
  });
  std::vector<PoolRequest> requests;
  requests.reserve(events.size());
  for (const Event& event : events) requests.push_back(event.request);
  return requests;
}

}  // namespace fitstep

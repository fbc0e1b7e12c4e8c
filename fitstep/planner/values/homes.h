// Homes: where persistent storages are between steps, on the device or on the host tier below.
//
//   device   | home | home |  blocks of the step  |      a home below leaves its place to others,
//   host     | home |  what was evicted           |      and comes and goes around its uses
//
// What has its home on the device is there all the time, whatever is planned. Below it costs copies
// in every step; which of the two is better shows only when plans are made. So a few sets are
// offered, each within the next: first what is used once in a step, as optimizer state is, last
// what is used again and again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/planner/request.h"
#include "fitstep/planner/values/values.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Where they are, and where free blocks may start.
struct Homes {
  std::vector<int64_t> offset_bytes;  // By storage, on its tier; -1 for storages without a home.
  std::vector<char> is_below;         // By storage: whether its home is on the host tier.
  int64_t bottom_bytes = 0;           // Free blocks of the device lie at or above this; aligned.
  int64_t size_bytes = 0;             // Sum of the sizes of the homes on the device.
  int64_t end_bytes = 0;              // Where the last of them ends.
  int64_t host_bottom_bytes = 0;      // As for the device.
  int64_t host_size_bytes = 0;

  bool any_below() const { return host_size_bytes > 0; }
};

// The homes of the request, and behind them, in order of storages, those that it does not name: on
// the host tier those of `below`.
Homes make_homes(const Program& program, const PlanRequest& request,
                 std::span<const StorageId> below = {});

// Every storage with a home, if it has bytes.
std::vector<StorageId> all_homes(const Program& program);

// Sets to have below, each a part of the next, the first one empty.
std::vector<std::vector<StorageId>> home_levels(const Values& values);

}  // namespace fitstep

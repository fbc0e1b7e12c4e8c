// Homes: where persistent storages are between steps, on the device or on the host tier below.
//
//   device   | home | home |  blocks of the step  |      a storage with its home on the host is
//   host     | home |  evicted blocks             |      copied to the device around its uses
//
// A storage with its home on the device stays on the device all the time. A home below frees device
// bytes but costs copies in every step. Only planning shows which is better, so home_levels()
// offers a few sets to try, each a part of the next. The first sets hold storages that are used
// once per step, such as optimizer state; the last sets also hold those that are used many times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/planner/request.h"
#include "fitstep/planner/values/values.h"
#include "fitstep/program/program.h"

namespace fitstep {

// The offsets of all homes, and where free blocks may start.
struct Homes {
  std::vector<int64_t> offset_bytes;  // By storage, on its tier; -1 for storages without a home.
  std::vector<char> is_below;         // By storage: whether its home is on the host tier.
  int64_t bottom_bytes = 0;           // Free blocks of the device lie at or above this; aligned.
  int64_t size_bytes = 0;             // Sum of the sizes of the homes on the device.
  int64_t end_bytes = 0;              // Where the last home on the device ends.
  int64_t host_bottom_bytes = 0;      // The same for the host tier.
  int64_t host_size_bytes = 0;

  bool any_below() const { return host_size_bytes > 0; }
};

// The homes of the request, then all other homes in order of storages. Of the others, those in
// `below` are on the host tier.
Homes make_homes(const Program& program, const PlanRequest& request,
                 std::span<const StorageId> below = {});

// Every storage that has a home and a size above 0.
std::vector<StorageId> all_homes(const Program& program);

// Sets of homes to try below, each a part of the next; the first set is empty.
std::vector<std::vector<StorageId>> home_levels(const Values& values);

}  // namespace fitstep

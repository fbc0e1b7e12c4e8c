// The state of a running plan at one moment, for all_plans.cpp.
#pragma once

#include <cstdint>

#include "fitstep/base/interval.h"
#include "fitstep/planner/values.h"

namespace fitstep::all_plans {

using Set = uint32_t;  // Of values with bytes, one bit each.

// One way to run an op.
struct Variant {
  Tick tick = 0;
  bool is_again = false;
  Tick until = kNever;  // Only before this op is next.
  int64_t seconds = 0;
  int64_t working_bytes = 0;
  Set reads = 0;
  Set writes = 0;
};

struct Copying {
  uint8_t value = 0;
  uint8_t seconds = 0;  // Left; 0 where the lane is idle.
};

struct State {
  uint8_t next = 0;  // Op whose first run comes next.
  uint8_t variant = 0;
  uint8_t seconds = 0;  // Left of the run; 0 where the lane is idle.
  Set device = 0;
  Set host = 0;
  Copying evict;
  Copying prefetch;

  uint64_t key() const {
    uint64_t key = next;
    const auto append = [&](uint64_t bits, uint64_t number) { key = (key << bits) | number; };
    append(6, variant);
    append(4, seconds);
    append(12, device);
    append(12, host);
    append(4, evict.value);
    append(4, evict.seconds);
    append(4, prefetch.value);
    append(4, prefetch.seconds);
    return key;
  }
};

}  // namespace fitstep::all_plans

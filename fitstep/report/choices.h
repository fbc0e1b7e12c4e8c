// A plan's choice for every storage, and its numbers: how long the storage is unused, how long a
// recompute would take, and the copies and recomputes of the plan.
//
//   compute   f0 | f1 | ... | b1'| b0        f0 and b0 use a0; its gap lies between them. keep:
//   a0        |==|<-- gap ------>|==|        a0 stays. recompute: f0 runs again before b0. offload:
//                                            a0 is copied to a lower tier and back
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {

enum class Choice {
  Home,       // Persistent: parameters and other state.
  Brief,      // Used without a gap: nothing to choose.
  Keep,       // Stays on the device in its gaps.
  Recompute,  // Recomputed, once or more often.
  Offload,    // Copied to another tier and back.
};
inline constexpr size_t kChoiceCount = 5;

struct StorageChoice {
  StorageId storage;
  Choice choice = Choice::Brief;
  OpId maker;  // The first op that writes it; none: no op does.
  int64_t size_bytes = 0;
  int64_t gap_ps = 0;  // Longest time between two uses; persistent: across steps.
  OpId before;         // The ops around the gap; none: no gap.
  OpId after;
  std::optional<int64_t> again_ps;  // Time to recompute it; none: not possible.
  int64_t recomputes = 0;           // Second and later runs that write it,
  int64_t recompute_ps = 0;         // and their time.
  int64_t copies = 0;               // Between tiers,
  int64_t copied_bytes = 0;         // and their bytes.
  bool is_on_disk = false;          // Part of the time.
};

// One entry for every storage of the arena that has bytes, by id. `timeline` is the plan's. A
// storage that is copied and recomputed is an Offload.
//
// REQUIRES: verify() found no fault.
std::vector<StorageChoice> storage_choices(const Program& program, const Plan& plan,
                                           const Timeline& timeline);

struct ChoiceTotal {
  int64_t storages = 0;
  int64_t bytes = 0;
  int64_t disk_bytes = 0;  // Of storages that are on the disk part of the time.
};

// By choice.
std::array<ChoiceTotal, kChoiceCount> total_choices(const std::vector<StorageChoice>& choices);

const char* to_string(Choice choice);

}  // namespace fitstep

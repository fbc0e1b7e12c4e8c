// What a plan decided for every storage, and the numbers behind it: how long the storage lies
// unused, what making it again would take, what was done instead.
//
//   compute   f0 | f1 | ... | b1'| b0        a0 is used by f0 and b0; the gap lies between them
//   a0        |==|<-- gap ------>|==|        keep: it stays; recompute: f0 runs again in front of
//                                            b0; offload: it is copied away and back
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
  Home,       // Persistent, and always there.
  Brief,      // Used without a gap: there is nothing to choose.
  Keep,       // Stays across its gaps.
  Recompute,  // Made again, once or more often.
  Offload,    // Copied to another tier and back.
};
inline constexpr size_t kChoiceCount = 5;

struct StorageChoice {
  StorageId storage;
  Choice choice = Choice::Brief;
  OpId maker;  // The first that writes it; none for what no op does.
  int64_t size_bytes = 0;
  int64_t gap_ps = 0;  // The longest time between two uses; of a persistent one, across steps too.
  OpId before;         // The ops around that gap; none without one.
  OpId after;
  std::optional<int64_t> again_ps;  // Of its ops alone, to make it again; none: they cannot.
  int64_t recomputes = 0;           // Runs beyond the first that write it,
  int64_t recompute_ps = 0;         // and their time.
  int64_t copies = 0;               // Between tiers,
  int64_t copied_bytes = 0;         // and their bytes.
  bool is_on_disk = false;          // For a while.
};

// One for every storage of the arena that has bytes, in order of ids. `timeline` is the plan's. A
// storage that is both copied and made again is an Offload.
//
// REQUIRES: verify() found no fault.
std::vector<StorageChoice> storage_choices(const Program& program, const Plan& plan,
                                           const Timeline& timeline);

struct ChoiceTotal {
  int64_t storages = 0;
  int64_t bytes = 0;
  int64_t disk_bytes = 0;  // Of those that are on the disk for a while.
};

// By choice.
std::array<ChoiceTotal, kChoiceCount> total_choices(const std::vector<StorageChoice>& choices);

const char* to_string(Choice choice);

}  // namespace fitstep

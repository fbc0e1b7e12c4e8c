// A plan describes one step: the order of op runs and copies, the waits of each, and the address of
// every residency and every scratch block.
//
// A residency is one storage on one tier for one interval. A storage may have several residencies,
// one after another. Here the plan drops a1 after f1 and recomputes it (f1') before its next use:
//
//   lane compute   f0   f1   f2   b2   f1'  b1   b0
//   a0             |-- residency 0 ---------------|
//   a1                  |--1-|         |--2-|
//   a2                       |--3-|
//
// A plan is a cycle: at its start and at its end every persistent storage is in its home, and no
// copy is in flight. A step allocates nothing: the plan holds all addresses.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/program/program.h"

namespace fitstep {

// The tier of residencies without an address: inputs, outputs, constants, generators.
inline constexpr TierId kExternalTier = TierId(int32_t{1000});
inline constexpr TierId kDeviceTier = TierId(int32_t{0});
inline constexpr TierId kHostTier = TierId(int32_t{1});
inline constexpr TierId kDiskTier = TierId(int32_t{2});

// How a residency's bytes are compressed. The size of a code depends on the content, so a residency
// always has room for the plain bytes: codes save copy time and wear of a drive, never space.
enum class Code { None, ZeroValue, Zstd };

const char* to_string(Code code);  // As in plan files: "zero_value".

struct Residency {
  StorageId storage;
  TierId tier = kDeviceTier;
  int64_t offset_bytes = 0;  // In the tier's arena; meaningless on the external tier.
  int64_t size_bytes = 0;    // The storage's size, also in a code.
  Code code = Code::None;
  bool is_home = false;  // There before the first action and after the last.

  bool operator==(const Residency&) const = default;
};

// Evict and Prefetch copy between the device and the host tier, DiskWrite and DiskRead between the
// device and the disk tier. Each copy is one action, also if it passes through the host.
enum class Lane { Compute, Evict, Prefetch, DiskWrite, DiskRead };
inline constexpr int kLaneCount = 5;

const char* to_string(Lane lane);  // "disk write"; in plan files with "_".

// The lanes that copy between the device and a lower tier: down to the tier, and up again.
struct TierLanes {
  TierId tier;
  Lane down;
  Lane up;
};
inline constexpr std::array<TierLanes, 2> kTierLanes = {
    {{kHostTier, Lane::Evict, Lane::Prefetch}, {kDiskTier, Lane::DiskWrite, Lane::DiskRead}}};

constexpr bool goes_down(Lane lane) {
  return lane == kTierLanes[0].down || lane == kTierLanes[1].down;
}
constexpr bool is_disk_lane(Lane lane) {
  return lane == kTierLanes[1].down || lane == kTierLanes[1].up;
}

// One entry of a lane.
struct ActionRef {
  Lane lane = Lane::Compute;
  int32_t position = 0;

  bool operator==(const ActionRef&) const = default;
};

// A run of an op. Operands are residencies in the order of the form's reads and writes; a
// shape-only read may have none. `request_offset_bytes` has one device offset per request of the
// form; if the request becomes an output, the offset is the output's (-1 if external).
struct Run {
  OpId op;
  int32_t form = 0;
  std::vector<ResidencyId> reads;
  std::vector<ResidencyId> writes;
  std::vector<int64_t> request_offset_bytes;

  bool operator==(const Run&) const = default;
};

// A copy between two residencies of one storage. On the compute lane a copy saves a generator's
// state before an op that the plan will recompute.
struct Copy {
  ResidencyId source;
  ResidencyId target;

  bool operator==(const Copy&) const = default;
};

struct Action {
  enum class Kind { Run, Copy } kind = Kind::Run;
  Run run;                            // Where kind is Run.
  Copy copy;                          // Where kind is Copy.
  std::vector<ActionRef> waits;       // Starts after these actions of other lanes have ended.
  std::vector<ResidencyId> releases;  // Their bytes are free after this action.

  bool operator==(const Action&) const = default;
};

// What the planner has proven and predicted.
struct Certificate {
  int64_t floor_bytes = 0;     // Every plan of this program, in any order, needs as much.
  int64_t peak_bytes = 0;      // Most bytes live at one tick of this plan.
  int64_t height_bytes = 0;    // Bytes that the device arena needs.
  int64_t capacity_bytes = 0;  // Size of the arena that the plan was made for.
  int64_t predicted_ps = 0;    // Simulated time of a step.
  int64_t bound_ps = 0;        // A lower bound: no plan with these moves is faster.
  std::string bound;           // Name of the bound, its moves and start state.
  std::string moves;           // "recompute"

  bool operator==(const Certificate&) const = default;
};

struct Plan {
  std::string program_hash;  // hash_program() of its program.
  std::string policy = "auto";
  uint64_t seed = 0;
  std::vector<Residency> residencies;
  std::vector<Action> lanes[kLaneCount];  // Indexed by Lane.
  Certificate certificate;

  const std::vector<Action>& lane(Lane which) const { return lanes[static_cast<int>(which)]; }
  std::vector<Action>& lane(Lane which) { return lanes[static_cast<int>(which)]; }

  bool operator==(const Plan&) const = default;
};

inline constexpr int64_t kDeviceCodeBytes = 4;        // Codes made by a device are whole words.
inline constexpr int64_t kDiskAlignmentBytes = 4096;  // Of disk offsets, for direct I/O.

}  // namespace fitstep

// A plan says what shall happen in one step: which op instances and copies run in which order, what
// each waits for, and the address of every residency and of every scratch block.
//
// A residency is one storage on one tier for one interval. The same storage may have several, one
// after another; here a1 is dropped after f1 and recomputed (f1') in front of its next use:
//
//   lane compute   f0   f1   f2   b2   f1'  b1   b0
//   a0             |-- residency 0 ---------------|
//   a1                  |--1-|         |--2-|
//   a2                       |--3-|
//
// A plan is a cycle: it starts and ends with every persistent storage in its home, and with nothing
// in flight. Nothing is allocated at run time: an address is decided here or it does not exist.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/program/program.h"

namespace fitstep {

// The tier of residencies that we give no address (inputs, outputs, constants, generators).
inline constexpr TierId kExternalTier = TierId(int32_t{1000});
inline constexpr TierId kDeviceTier = TierId(int32_t{0});
inline constexpr TierId kHostTier = TierId(int32_t{1});
inline constexpr TierId kDiskTier = TierId(int32_t{2});

// How the bytes are kept. Codes need less or not, as the content is, so that room is kept for all
// of it: they save time and wear on the way to a disk, never space.
enum class Code { None, ZeroValue, Zstd };

const char* to_string(Code code);  // As in plan files: "zero_value".

struct Residency {
  StorageId storage;
  TierId tier = kDeviceTier;
  int64_t offset_bytes = 0;  // In the tier's arena; meaningless on the external tier.
  int64_t size_bytes = 0;    // Kept free for it: the storage's size.
  Code code = Code::None;
  bool is_home = false;  // Exists before the first and after the last action.

  bool operator==(const Residency&) const = default;
};

// Evict and Prefetch copy between the device and the host tier, DiskWrite and DiskRead between the
// device and the disk tier: such a copy is one action, whatever it passes through on its way.
enum class Lane { Compute, Evict, Prefetch, DiskWrite, DiskRead };
inline constexpr int kLaneCount = 5;

// One entry of a lane.
struct ActionRef {
  Lane lane = Lane::Compute;
  int32_t position = 0;

  bool operator==(const ActionRef&) const = default;
};

// An op instance. Operands are residencies in the order of the form's reads and writes; that of a
// shape-only read may be none. `request_offset_bytes` has one device address per request of the
// form; for a request that becomes an output it repeats that residency's offset (-1 if external).
struct Run {
  OpId op;
  int32_t form = 0;
  std::vector<ResidencyId> reads;
  std::vector<ResidencyId> writes;
  std::vector<int64_t> request_offset_bytes;

  bool operator==(const Run&) const = default;
};

// A copy between two residencies of one storage: to the tier of its lane, from there, or (on the
// compute lane) the saving of a generator's state in front of the op that will be recomputed.
struct Copy {
  ResidencyId source;
  ResidencyId target;

  bool operator==(const Copy&) const = default;
};

struct Action {
  enum class Kind { Run, Copy } kind = Kind::Run;
  Run run;                            // Where kind is Run.
  Copy copy;                          // Where kind is Copy.
  std::vector<ActionRef> waits;       // Ends of these on other lanes come first.
  std::vector<ResidencyId> releases;  // Their bytes are free once this action has ended.

  bool operator==(const Action&) const = default;
};

// What was proven, and what was predicted.
struct Certificate {
  int64_t floor_bytes = 0;     // No plan of this program, in any order, needs less.
  int64_t peak_bytes = 0;      // Most bytes live at one tick of this plan.
  int64_t height_bytes = 0;    // What the device arena must hold.
  int64_t capacity_bytes = 0;  // What it was planned for.
  int64_t predicted_ps = 0;    // Simulated time of a step.
  int64_t bound_ps = 0;        // No plan with these moves is faster.
  std::string bound;           // Which bound that is, and for which moves and start state.
  std::string moves;           // "recompute"

  bool operator==(const Certificate&) const = default;
};

struct Plan {
  std::string program_hash;  // hash_program() of the program it is for.
  std::string policy = "auto";
  uint64_t seed = 0;
  std::vector<Residency> residencies;
  std::vector<Action> lanes[kLaneCount];  // Indexed by Lane.
  Certificate certificate;

  const std::vector<Action>& lane(Lane which) const { return lanes[static_cast<int>(which)]; }
  std::vector<Action>& lane(Lane which) { return lanes[static_cast<int>(which)]; }

  bool operator==(const Plan&) const = default;
};

inline constexpr int64_t kDeviceCodeBytes = 4;  // A device codes whole words, also on the host.
inline constexpr int64_t kDiskAlignmentBytes = 4096;  // Of every disk offset: direct I/O asks so.

}  // namespace fitstep

// A device is the one door to hardware: memory that plans place their residencies in, and the lanes
// that copy between tiers.
//
//   compute    f0    f1    f2       b2       on the calling thread; says how far it is
//                 \                /
//   evict          [ a0 ]--\      /          the device's own: each copy begins once everything in
//   prefetch                [ a0 ]           its `waits` has ended, and says so when it ends itself
//   disk write     [    a1    ]-----\        to a file of the device's,
//   disk read                   [ a1 ]       and back
//
// An event is the end of a lane's n-th action: Mark{lane, n}. Nothing else orders copies, so a late
// one makes others wait and never reads or leaves wrong bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"

namespace fitstep {

// The first `count` actions of a lane have ended.
struct Mark {
  Lane lane = Lane::Compute;
  int32_t count = 0;

  bool operator==(const Mark&) const = default;
};

// An action of a copy lane with all decided. Source and target do not overlap. Of the two, the one
// that is in the file is null.
struct LaneCopy {
  const char* source = nullptr;
  char* target = nullptr;
  int64_t size_bytes = 0;
  int64_t file_offset_bytes = 0;  // Of the disk lanes.
  // Which one of those that lanes bring to its tier below, counted from 0; -1 for others: homes.
  int32_t residency_below = -1;
  Code code = Code::None;  // Of what is below.
  std::vector<Mark> waits;
};

inline constexpr std::array kCopyLanes = {Lane::Evict, Lane::Prefetch, Lane::DiskWrite,
                                          Lane::DiskRead};

// What a copy to a tier below has been in the last step that made it.
struct CopySize {
  int64_t size_bytes = 0;
  int64_t written_bytes = 0;  // There; to the file in whole blocks.
  // Of what sample_codes() asked for: what these codes would have written; 0: not looked at.
  int64_t zero_value_bytes = 0;
  int64_t zstd_bytes = 0;
};

// The lanes to tiers below.
inline constexpr std::array kEvictLanes = {Lane::Evict, Lane::DiskWrite};

inline bool is_disk_lane(Lane lane) { return lane == Lane::DiskWrite || lane == Lane::DiskRead; }

class LaneCopies {
 public:
  std::vector<LaneCopy>& of(Lane lane) { return lanes_[static_cast<size_t>(lane)]; }
  const std::vector<LaneCopy>& of(Lane lane) const { return lanes_[static_cast<size_t>(lane)]; }

 private:
  std::array<std::vector<LaneCopy>, kLaneCount> lanes_;  // That of the compute lane is empty.
};

// What the file must hold: the highest end of the copies there.
inline int64_t file_bytes(const LaneCopies& copies) {
  int64_t end_bytes = 0;
  for (const LaneCopy& copy : copies.of(Lane::DiskWrite)) {
    end_bytes = std::max(end_bytes, copy.file_offset_bytes + copy.size_bytes);
  }
  return end_bytes;
}

struct LaneFailure {
  Lane lane = Lane::Evict;
  int32_t position = 0;  // The copy that failed; what is in its target is undefined.
  Error error;
};

// The copy lanes of one plan, ready to run step after step. For one step, in this order: begin(),
// then compute_ended() and wait() as the compute lane goes, then, always, drain(). All from one
// thread; none of them allocates.
class CopyLanes {
 public:
  CopyLanes() = default;
  CopyLanes(const CopyLanes&) = delete;
  CopyLanes& operator=(const CopyLanes&) = delete;
  virtual ~CopyLanes() = default;

  // Starts a step, all lanes at their first action. On an error nothing has started, and there is
  // nothing to drain.
  virtual Status begin() = 0;

  // The compute lane has ended one more action. What it wrote is seen by copies that wait for it.
  virtual void compute_ended() = 0;

  // Sleeps until the mark is reached; what those copies wrote is then seen by the caller. False if
  // a lane has stopped: then nothing must be made of their targets.
  virtual bool wait(Mark mark) = 0;

  // No lane begins another action.
  virtual void stop() = 0;

  // Sleeps until all lanes are at their end, or have stopped, and nothing is in flight. The first
  // copy that failed, if one did: all lanes stopped then.
  //
  // REQUIRES: compute has ended all that copies wait for, or stop() was called.
  virtual std::optional<LaneFailure> drain() = 0;

  // Between steps: has the next one find out what codes would make of what goes to tiers below.
  virtual void sample_codes() {}

  // Between steps, by position on a lane that evicts; empty for lanes that do not look.
  virtual std::vector<CopySize> copy_sizes(Lane /*lane*/) const { return {}; }
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual std::string name() const = 0;

  // Reserves `size_bytes` of the device or the host tier, aligned to a page. The bytes need not be
  // backed before they are touched.
  virtual Result<char*> reserve(TierId tier, int64_t size_bytes) = 0;

  // Gives back what reserve() returned. Never fails.
  virtual void release(char* base, int64_t size_bytes) = 0;

  // Gives the bytes of [begin, begin + size) back and keeps the addresses; what is read there
  // afterwards is undefined. Bytes at the ends that share a page with others stay. Never fails.
  virtual void discard(char* begin, int64_t size_bytes) = 0;

  // Whether processes that are forked from now on find these pages. What reserve() returns they do
  // not, so that no page is ever copied for them. Never fails.
  virtual void set_in_forks(char* begin, int64_t size_bytes, bool is_in_forks) = 0;

  // Makes lanes for these copies, and room in the device's file for what they write there; an error
  // where there is none, or no file. Several may be open, one runs a step at a time.
  //
  // REQUIRES: waits are acyclic, and all memory outlives the lanes. What is read was written in the
  // same step, from the same offset and of the same size.
  virtual Result<std::unique_ptr<CopyLanes>> open_lanes(LaneCopies copies) = 0;
};

}  // namespace fitstep

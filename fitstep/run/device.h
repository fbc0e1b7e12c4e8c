// A device is the only interface to hardware: memory for residencies, and lanes that copy between
// tiers.
//
//   compute    f0    f1    f2       b2       the calling thread; reports its progress
//                 \                /
//   evict          [ a0 ]--\      /          the device's: a copy begins after all its `waits` have
//   prefetch                [ a0 ]           ended, and reports its own end
//   disk write     [    a1    ]-----\        to the device's file,
//   disk read                   [ a1 ]       and back
//
// Mark{lane, n} is the end of a lane's n-th action. Only marks order copies: a late copy makes
// others wait, and no copy reads or leaves wrong bytes.
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

// A copy with its addresses. Source and target do not overlap; the one in the file is null.
struct LaneCopy {
  const char* source = nullptr;
  char* target = nullptr;
  int64_t size_bytes = 0;
  int64_t file_offset_bytes = 0;  // Of the disk lanes.
  // Number, from 0, of the residency on its lower tier, among those that lanes copy; -1: a home.
  int32_t residency_below = -1;
  Code code = Code::None;  // Of the residency on the lower tier.
  std::vector<Mark> waits;
};

inline constexpr std::array kCopyLanes = {Lane::Evict, Lane::Prefetch, Lane::DiskWrite,
                                          Lane::DiskRead};

// The size of a copy to a lower tier in its last step.
struct CopySize {
  int64_t size_bytes = 0;
  int64_t written_bytes = 0;  // On the lower tier; in the file in whole blocks.
  // After sample_codes(): estimated bytes in these codes; 0: not sampled.
  int64_t zero_value_bytes = 0;
  int64_t zstd_bytes = 0;
};

class LaneCopies {
 public:
  std::vector<LaneCopy>& of(Lane lane) { return lanes_[static_cast<size_t>(lane)]; }
  const std::vector<LaneCopy>& of(Lane lane) const { return lanes_[static_cast<size_t>(lane)]; }

 private:
  std::array<std::vector<LaneCopy>, kLaneCount> lanes_;  // The compute lane has none.
};

// Size of the file: the highest end of the copies in it.
inline int64_t file_bytes(const LaneCopies& copies) {
  int64_t end_bytes = 0;
  for (const LaneCopy& copy : copies.of(Lane::DiskWrite)) {
    end_bytes = std::max(end_bytes, copy.file_offset_bytes + copy.size_bytes);
  }
  return end_bytes;
}

struct LaneFailure {
  Lane lane = Lane::Evict;
  int32_t position = 0;  // The copy that failed; its target is undefined.
  Error error;
};

// The copy lanes of one plan. Call for each step, from one thread: begin(); compute_ended() and
// wait() as the compute lane advances; at the end always drain(). No call allocates.
class CopyLanes {
 public:
  CopyLanes() = default;
  CopyLanes(const CopyLanes&) = delete;
  CopyLanes& operator=(const CopyLanes&) = delete;
  virtual ~CopyLanes() = default;

  // Starts a step, all lanes at their first action. After an error nothing has started: do not call
  // drain().
  virtual Status begin() = 0;

  // The compute lane has ended one more action. Copies that wait for it see its writes.
  virtual void compute_ended() = 0;

  // Sleeps until the mark is reached; the caller then sees what the copies wrote. False: a lane has
  // stopped, do not use the targets.
  virtual bool wait(Mark mark) = 0;

  // Lets no lane begin another action.
  virtual void stop() = 0;

  // Sleeps until all lanes have ended or stopped, and no copy is in flight. Returns the first copy
  // that failed, if any; a failure stops all lanes.
  //
  // REQUIRES: compute has ended all actions that copies wait for, or stop() was called.
  virtual std::optional<LaneFailure> drain() = 0;

  // Between steps: lets the next step estimate the size of its copies in codes.
  virtual void sample_codes() {}

  // Between steps: by position on an evicting lane; empty if the lanes keep no sizes.
  virtual std::vector<CopySize> copy_sizes(Lane /*lane*/) const { return {}; }
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual std::string name() const = 0;

  // Reserves `size_bytes` of the device or the host tier, aligned to a page. The system may back
  // the bytes at their first use.
  virtual Result<char*> reserve(TierId tier, int64_t size_bytes) = 0;

  // Gives back what reserve() returned. Never fails.
  virtual void release(char* base, int64_t size_bytes) = 0;

  // Gives the bytes of [begin, begin + size) back and keeps the addresses; the content is undefined
  // afterwards. Pages that reach outside the range stay. Never fails.
  virtual void discard(char* begin, int64_t size_bytes) = 0;

  // Whether processes forked from now on get these pages. By default they do not, so that no page
  // is copied for them. Never fails.
  virtual void set_in_forks(char* begin, int64_t size_bytes, bool is_in_forks) = 0;

  // Makes lanes for these copies, and room for them in the device's file. Errors: no room, no file.
  // Several lanes may be open; one at a time runs a step.
  //
  // REQUIRES: waits have no cycle; all memory outlives the lanes; a step reads from a lower tier
  // only what it has written there, with the same offset and size.
  virtual Result<std::unique_ptr<CopyLanes>> open_lanes(LaneCopies copies) = 0;
};

}  // namespace fitstep

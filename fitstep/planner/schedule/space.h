// Space: the blocks of memory that a schedule needs, for the placer.
//
// Blocks have fine ticks: an instance has one fine tick for each request or release of its kernel.
// So scratch that the kernel frees early can share bytes with scratch that it requests later:
//
//   instance      |------- conv -------|-- relu --|
//   fine tick     0      1      2      3
//   input         -----------------------|
//   scratch 1     |------|
//   scratch 2            |------|
//   output               |--------------------------
//
// With transfers, an instance has one more fine tick before it for each slot of its pause.
//
// If an output may take the address of an input that ends in the same instance, the two stays are
// one block; where the output is smaller, no storage uses the block's upper bytes from then on.
// Homes are not blocks: they lie below all blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/plan/layout.h"
#include "fitstep/planner/schedule/scheduler.h"

namespace fitstep {

struct Space {
  std::vector<Block> blocks;
  std::vector<Block> host_blocks;         // On the host tier; ticks are moments.
  std::vector<Block> disk_blocks;         // On the disk tier; ticks are moments.
  std::vector<int32_t> block_of_stay;     // In its tier; kNone for own places and for 0 bytes.
  std::vector<int32_t> first_request;     // By instance: index of its first request in ...
  std::vector<int32_t> block_of_request;  // ... this list; kNone for outputs and 0 bytes.
  std::vector<Tick> first_tick;           // By instance, and the end of the last one.
  std::vector<int64_t> live_bytes;        // By instance: most bytes of blocks live during it.
  std::vector<int64_t> boundary_bytes;    // By instance: bytes live in the pause before it.
  int64_t peak_bytes = 0;                 // The most of `live_bytes`: no layout is lower.
  int64_t storages_peak_bytes = 0;        // Without the bytes of blocks that no storage uses.
};

Space make_space(const Values& values, const Schedule& schedule);

// The fine ticks of an instance that runs in this form.
class Sequence {
 public:
  Sequence() = default;  // Of an instance without a form: one tick.
  explicit Sequence(const Form& form);

  Tick length() const { return length_; }  // At least 1.

  // The live interval of one request. If worker threads make requests, their order is not known, so
  // all requests of the form count as live for the whole instance.
  Interval live(const Request& request) const;

 private:
  Tick length_ = 1;
  bool is_any_thread_ = false;
};

}  // namespace fitstep

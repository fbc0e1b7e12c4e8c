// Space: what a schedule needs of the arena, as blocks for the placer.
//
// Ticks here are fine: an instance has as many as its kernel's sequence of requests and releases is
// long, so that scratch which is freed inside the kernel can share bytes with what comes later:
//
//   instance      |------- conv -------|-- relu --|
//   fine tick     0      1      2      3
//   input         -----------------------|
//   scratch 1     |------|
//   scratch 2            |------|
//   output               |--------------------------
//
// With transfers, each instance has a fine tick more in front for each step of its pause.
//
// Where an output may take the address of an input that ends in the same instance, the two stays
// are one block. Homes are not blocks: they lie below all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/plan/layout.h"
#include "fitstep/planner/schedule/scheduler.h"

namespace fitstep {

struct Space {
  std::vector<Block> blocks;
  std::vector<Block> host_blocks;         // On the host tier; ticks are moments.
  std::vector<Block> disk_blocks;         // On the disk tier, the same.
  std::vector<int32_t> block_of_stay;     // In its tier; kNone for own places and for 0 bytes.
  std::vector<int32_t> first_request;     // By instance: where its requests start in ...
  std::vector<int32_t> block_of_request;  // ... this list; kNone for outputs and 0 bytes.
  std::vector<Tick> first_tick;           // By instance, and one more.
  std::vector<int64_t> live_bytes;        // By instance: most bytes of storages live during it.
  std::vector<int64_t> boundary_bytes;    // By instance: bytes live in the pause in front of it.
  int64_t peak_bytes = 0;                 // Most bytes of storages live during an instance.
};

Space make_space(const Values& values, const Schedule& schedule);

// The ticks of a form in one of its instances.
class Sequence {
 public:
  explicit Sequence(const Form& form);

  Tick length() const { return length_; }  // At least 1.

  // The live interval of one of the form's requests. Requests of worker threads come in any order,
  // so then all requests of the form are live throughout.
  Interval live(const Request& request) const;

 private:
  Tick length_ = 1;
  bool is_any_thread_ = false;
};

}  // namespace fitstep

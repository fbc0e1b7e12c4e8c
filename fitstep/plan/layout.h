// A layout gives every block an offset in one tier's arena.
//
// A block is a residency reduced to a size and the ticks during which it is live. Blocks that are
// live at the same tick must not overlap in space. The saved activations of a training step form a
// pyramid, the running example of all headers and tests:
//
//   bytes
//     3 |         +-- a2 ---+
//     2 |    +------- a1 --------+
//     1 +------------ a0 -------------+
//       +----+----+----+----+----+----+--> tick
//         f0   f1   f2   b2   b1   b0
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/base/interval.h"

namespace fitstep {

struct Block {
  int64_t size_bytes = 0;
  Interval live;
  int64_t fixed_offset_bytes = -1;  // Required offset; -1: the placer chooses.
};

struct Layout {
  std::vector<int64_t> offset_bytes;  // One per block, in the order of the blocks.
  int64_t height_bytes = 0;           // The arena must be at least this large.
  int64_t peak_bytes = 0;             // Most bytes live at one tick; no layout can be lower.
};

}  // namespace fitstep

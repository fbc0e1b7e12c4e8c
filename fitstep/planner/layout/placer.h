// The placer makes a Layout: blocks with their ticks go in, offsets come out.
//
// Finding the lowest layout is NP-hard. Time is split into parts that share no block (sections.h).
// In the highest part we fill a skyline from below, many times, with other scores each time, and
// search a small part exactly where the options ask for it (part_search.h), until the height is
// proven lowest (it equals the peak, say) or low enough. Here the lowest segment of the skyline is
// [f0, f2); a1 fits into it, a2 does not:
//
//   bytes                            +-- a2 ---+            still to be placed
//     2 |         . . . . . .          +-- a1 --+
//     1 +--- a0 --+         :
//       +----+----+----+----+----+----+--> tick
//         f0   f1   f2   b2   b1   b0
//
// Fixed blocks keep their offsets. The space under a fixed block that reaches above `bottom_bytes`
// is not used. Blocks that share an address on purpose are one block for the placer.
#pragma once

#include <cstdint>
#include <span>

#include "fitstep/plan/layout.h"

namespace fitstep {

struct PlaceOptions {
  int64_t alignment_bytes = 64;  // Of every offset; a power of two.
  int64_t bottom_bytes = 0;      // Free blocks lie at or above this.
  int64_t target_bytes = 0;      // Low enough: stop at a height of at most this.
  int32_t passes = 64;           // At most so many skylines of one part.
  int64_t exact_nodes = 0;       // At most so many nodes of the exact search in one part; 0: none.
  double time_limit_s = 0;       // Stop then, after one skyline; 0: only passes and nodes decide.
  uint64_t seed = 1;
};

struct Placement {
  Layout layout;
  int64_t bound_bytes = 0;  // No layout is lower, nor uses the space under fixed blocks: proven.
};

// Places all blocks. Equal inputs give equal layouts (with a time limit: nearly); blocks of
// size 0 get the bottom. Never fails: whether the height fits is the caller's question.
//
// REQUIRES: sizes are not negative, no interval is empty, fixed blocks do not overlap each other.
Placement find_placement(std::span<const Block> blocks, const PlaceOptions& options);

// Its layout alone.
Layout place_blocks(std::span<const Block> blocks, const PlaceOptions& options);

}  // namespace fitstep

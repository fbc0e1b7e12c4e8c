// The placer makes a Layout: blocks with their ticks go in, offsets come out.
//
// Finding the lowest layout is NP-hard. Time is split into parts that share no block (sections.h).
// In the highest part we fill a skyline from below, many times with different scores; if the
// options ask for it, a small part is also searched exactly (part_search.h). We stop when the
// height is low enough or proven lowest, for example because it equals the peak. Here the lowest
// piece of the skyline is [f0, f2); a1 fits into it, a2 does not:
//
//   bytes                            +-- a2 ---+            still to be placed
//     2 |         . . . . . .          +-- a1 --+
//     1 +--- a0 --+         :
//       +----+----+----+----+----+----+--> tick
//         f0   f1   f2   b2   b1   b0
//
// Fixed blocks keep their offsets. If a fixed block reaches above `bottom_bytes`, the space below
// it is not used. Blocks that share an address on purpose are one block for the placer.
#pragma once

#include <cstdint>
#include <span>

#include "fitstep/plan/layout.h"

namespace fitstep {

struct PlaceOptions {
  int64_t alignment_bytes = 64;  // Of every offset; a power of two.
  int64_t bottom_bytes = 0;      // Free blocks lie at or above this.
  int64_t target_bytes = 0;      // Low enough: stop at a height of at most this.
  int32_t passes = 64;           // At most this many skylines per part.
  int64_t exact_nodes = 0;       // At most this many nodes of the exact search per part; 0: none.
  double time_limit_s = 0;       // Stop after this time and one skyline; 0 for no time limit.
  uint64_t seed = 1;
};

struct Placement {
  Layout layout;
  int64_t bound_bytes = 0;  // Proven: with nothing under fixed blocks, no layout is lower.
};

// Places all blocks. Equal inputs give equal layouts, unless a time limit ends the search. Blocks
// of size 0 get the bottom. Never fails: the caller checks whether the height fits.
//
// REQUIRES: sizes are not negative, no interval is empty, fixed blocks do not overlap each other.
Placement find_placement(std::span<const Block> blocks, const PlaceOptions& options);

// The layout of find_placement().
Layout place_blocks(std::span<const Block> blocks, const PlaceOptions& options);

}  // namespace fitstep

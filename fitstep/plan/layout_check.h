// Checks a Layout against its blocks, independently of the placer that made it.
//
// Compares all pairs of blocks that are live together, on purpose: there is nothing in it to get
// wrong, and it takes time in proportion to these pairs.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fitstep/plan/layout.h"

namespace fitstep {

// The first fault, with blocks and numbers; empty where the layout is right: aligned, fixed blocks
// where they must be, no two live blocks share a byte, height and peak are what the blocks say.
// Blocks without bytes or ticks need no place.
std::string check_layout(std::span<const Block> blocks, const Layout& layout,
                         int64_t alignment_bytes);

}  // namespace fitstep

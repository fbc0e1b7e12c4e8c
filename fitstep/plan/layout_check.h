// Checks a Layout against its blocks, independently of the placer that made it.
//
// Compares every pair of blocks that are live together: slow, but too simple to be wrong.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fitstep/plan/layout.h"

namespace fitstep {

// Returns the first fault with its blocks and numbers; empty if the layout is right. A right layout
// is aligned, has fixed blocks at their offsets, no two live blocks share a byte, and its height
// and peak are true. Blocks without bytes or ticks may lie anywhere.
std::string check_layout(std::span<const Block> blocks, const Layout& layout,
                         int64_t alignment_bytes);

}  // namespace fitstep

// Random blocks, and the lowest layout of a few blocks, found by trying every order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/base/random.h"
#include "fitstep/plan/layout.h"
#include "fitstep/planner/layout.h"

namespace fitstep {

// Sizes 1 to `most_bytes`, lifetimes of up to half the ticks and a bit.
std::vector<Block> random_blocks(Random& random, size_t count, Tick ticks, int64_t most_bytes = 9);

// Cuts a rectangle of `height_bytes` and `ticks` into blocks. No byte is free at any tick, so the
// lowest layout is as high as the peak.
std::vector<Block> cut_rectangle(Random& random, size_t count, Tick ticks, int64_t height_bytes);

// Empty for a valid layout. Quadratic on purpose: nothing in common with the placer.
std::string layout_fault(const std::vector<Block>& blocks, const Layout& layout,
                         const PlaceOptions& options);

// The lowest height, with the placer's rule that nothing lies below a fixed block.
int64_t lowest_height(const std::vector<Block>& blocks, const PlaceOptions& options);

}  // namespace fitstep

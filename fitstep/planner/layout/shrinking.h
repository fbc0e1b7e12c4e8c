// Shrinking: a layout of few blocks that become smaller where they lie.
//
//   bytes           +-- b --+     a smaller output has taken the place of its input a: b may lie
//     4 |  +- a -+  |       |     where the rest of a was. For other layouts a block is as large as
//     2 |  |     +----------+     ever for as long as it lives.
//       +--+----------------+-> tick
//
// As its bottom is flat, every layout can be pushed down until each block rests on the floor or on
// another one. So blocks are tried in order of their offsets, each as low as those in front allow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fitstep/plan/layout.h"
#include "fitstep/planner/schedule.h"

namespace fitstep {

// All blocks at or above `bottom_bytes`, at most up to `target_bytes`; nothing if there is none, or
// if none is found soon. Offsets are multiples of `alignment_bytes`.
std::optional<Layout> shrinking_layout(std::span<const Block> blocks, std::span<const Rest> rests,
                                       int64_t bottom_bytes, int64_t target_bytes,
                                       int64_t alignment_bytes);

}  // namespace fitstep

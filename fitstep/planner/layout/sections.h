// Sections and parts: how the placer divides time.
//
// All blocks of a section are live together: within a section no block is born after another one
// has died. The placer needs nothing else of ticks. Here a1 dies at tick 3, a2 is born at tick 4:
//
//   a0  |--------------|              |-- a3 --|
//   a1  |----|    |-a2-|
//       0    3    4    6              9        12  tick
//       [ section 0 ][ 1 ]            [   2    ]
//
// Where no block crosses from one section to the next, time falls into parts. Each part is laid out
// by itself. A block that lives as long as its part goes to the bottom: in any layout one can move
// up the blocks below such a block. Without this block the part may fall into smaller parts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/plan/layout.h"

namespace fitstep {

// The sections of all blocks; `begin` and `end` are in the order of the blocks.
struct Sections {
  int32_t count = 0;
  std::vector<int32_t> begin;
  std::vector<int32_t> end;
};

// REQUIRES: no interval is empty.
Sections cut_into_sections(std::span<const Block> blocks);

// A block to place, in sections instead of ticks.
struct Item {
  int32_t block = 0;  // Index in the caller's list.
  int32_t begin = 0;  // Sections [begin, end).
  int32_t end = 0;
  int64_t size_bytes = 0;     // Aligned.
  int64_t padding_bytes = 0;  // Added by alignment; may lie above the height.
};

// A range of sections that can be laid out on its own.
struct Part {
  std::vector<Item> items;            // In order of begin; sections count from the part's first.
  std::vector<int64_t> ground_bytes;  // Of each section: where the items start.
};

struct Settled {
  int32_t block = 0;
  int64_t offset_bytes = 0;
};

struct Parts {
  std::vector<Part> parts;
  std::vector<Settled> settled;  // Blocks that live as long as their part.
};

// `ground_bytes` has one height per section; free items lie on it.
//
// REQUIRES: items in order of begin; sizes are positive.
Parts split_into_parts(std::vector<Item> items, std::vector<int64_t> ground_bytes);

// By section: the sum of its items' bytes, without the ground.
std::vector<int64_t> live_bytes_of(const Part& part);

// Where the fullest section ends, ground included: no layout of the aligned sizes is lower.
int64_t fullest_bytes_of(const Part& part);

}  // namespace fitstep

// Sections: time as the placer sees it, and its parts.
//
// Within a section nothing is born after something has died, so that all of a section's blocks are
// live together; nothing else about ticks matters. Here a1 dies at tick 3 and a2 is born at tick 4:
//
//   a0  |--------------|              |-- a3 --|
//   a1  |----|    |-a2-|
//       0    3    4    6              9        12  tick
//       [ section 0 ][ 1 ]            [   2    ]
//
// Where no block crosses from one section to the next, time falls into parts, and each part can be
// laid out on its own. A block that lives as long as its part goes to the bottom of it: any layout
// can be changed so, by moving up what was below. Then the part may fall apart further.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/plan/layout.h"

namespace fitstep {

// The sections of all blocks; a block's `begin` and `end` come out in its order.
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
  int64_t padding_bytes = 0;  // What alignment has added: need not lie below the height.
};

// A stretch of time that can be laid out on its own.
struct Part {
  std::vector<Item> items;            // In order of begin; sections count from the part's first.
  std::vector<int64_t> ground_bytes;  // Of each section: what lies below the items.
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

// Of each section: the bytes of its items, without ground.
std::vector<int64_t> live_bytes_of(const Part& part);

// Where the fullest section ends, ground included: no layout of the aligned sizes is lower.
int64_t fullest_bytes_of(const Part& part);

}  // namespace fitstep

// Memory for byte_machine.h: three arenas, a token in every byte; unwritten bytes are garbage.
//
// Bytes between two neighbouring ends of blocks are always treated alike, so they share a cell:
//
//   blocks   |---- a ----|              |-- c --|
//                  |----- b -----|
//   cells    |  0  |  1  |   2   |  3   |   4   |
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/base/hash.h"

namespace fitstep {

using Token = int64_t;  // Garbage is negative.
using Owner = int64_t;  // A live block; 0 for none.

constexpr size_t kMemoryTiers = 3;

struct Place {
  size_t tier = 0;
  size_t begin = 0;  // Cells.
  size_t end = 0;    // One past the last cell.
};

// Where blocks begin and end, by tier.
class BlockEnds {
 public:
  explicit BlockEnds(int64_t arena_bytes) : arena_bytes_(arena_bytes) {}

  // Blocks outside the arenas are left out.
  void add(int32_t tier, int64_t offset_bytes, int64_t size_bytes) {
    if (!is_inside(tier, offset_bytes, size_bytes)) return;
    ends_[static_cast<size_t>(tier)].push_back(offset_bytes);
    ends_[static_cast<size_t>(tier)].push_back(offset_bytes + size_bytes);
  }

  void sort() {
    for (std::vector<int64_t>& ends : ends_) {
      std::ranges::sort(ends);
      ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    }
  }

  // None outside the arenas; what has no bytes is anywhere. REQUIRES: it was added, and sorted.
  std::optional<Place> place(int32_t tier, int64_t offset_bytes, int64_t size_bytes) const {
    if (size_bytes == 0) return Place{};
    if (!is_inside(tier, offset_bytes, size_bytes)) return {};
    return Place{static_cast<size_t>(tier), cell(tier, offset_bytes),
                 cell(tier, offset_bytes + size_bytes)};
  }

  size_t cells(size_t tier) const { return ends_[tier].size(); }

 private:
  bool is_inside(int32_t tier, int64_t offset_bytes, int64_t size_bytes) const {
    const bool is_tier = tier >= 0 && static_cast<size_t>(tier) < kMemoryTiers;
    return is_tier && offset_bytes >= 0 && size_bytes >= 0 && size_bytes <= arena_bytes_ &&
           offset_bytes <= arena_bytes_ - size_bytes;
  }

  size_t cell(int32_t tier, int64_t end_bytes) const {
    const std::vector<int64_t>& ends = ends_[static_cast<size_t>(tier)];
    return static_cast<size_t>(std::ranges::lower_bound(ends, end_bytes) - ends.begin());
  }

  int64_t arena_bytes_;
  std::array<std::vector<int64_t>, kMemoryTiers> ends_;
};

class ByteMemory {
 public:
  explicit ByteMemory(const BlockEnds& ends) {
    for (size_t tier = 0; tier < kMemoryTiers; ++tier) {
      cells_[tier].assign(ends.cells(tier), garbage());
      owners_[tier].assign(ends.cells(tier), 0);
    }
  }

  // A new token each time. Numbered from the last number_garbage(), so that the tokens of an action
  // do not depend on other actions.
  Token garbage() { return -++garbage_; }
  void number_garbage(int64_t from) { garbage_ = from; }

  void fill(const Place& place, Token token) {
    for (size_t i = place.begin; i < place.end; ++i) cells_[place.tier][i] = token;
  }

  bool holds(const Place& place, Token token) const {
    for (size_t i = place.begin; i < place.end; ++i) {
      if (cells_[place.tier][i] != token) return false;
    }
    return true;
  }

  std::vector<Token> read(const Place& place) const {
    const auto begin = cells_[place.tier].begin();
    return {begin + static_cast<std::ptrdiff_t>(place.begin),
            begin + static_cast<std::ptrdiff_t>(place.end)};
  }

  // Gives the place from no owner or `from` to `to`; false if a cell had another owner.
  bool hand_over(const Place& place, Owner from, Owner to) {
    for (size_t i = place.begin; i < place.end; ++i) {
      Owner& owner = owners_[place.tier][i];
      if (owner != 0 && owner != from && owner != to) return false;
      owner = to;
    }
    return true;
  }

  // Cells of the place that `owner` has lose their owner.
  void let_go(const Place& place, Owner owner) {
    for (size_t i = place.begin; i < place.end; ++i) {
      if (owners_[place.tier][i] == owner) owners_[place.tier][i] = 0;
    }
  }

  void add_to(Fingerprint& state) const {
    for (const auto* cells : {&cells_, &owners_}) {
      for (const std::vector<int64_t>& tier : *cells) {
        for (const int64_t number : tier) state.add(number);
      }
    }
  }

 private:
  int64_t garbage_ = 0;
  std::array<std::vector<Token>, kMemoryTiers> cells_;
  std::array<std::vector<Owner>, kMemoryTiers> owners_;
};

}  // namespace fitstep

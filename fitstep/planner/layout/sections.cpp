#include "fitstep/planner/layout/sections.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/plan/layout.h"

namespace fitstep {
namespace {

// Parts are split at most this many times; each level reads all items.
constexpr int kMaxDepth = 64;

// Splits the part wherever no item crosses from one section to the next; in order.
std::vector<Part> cut_where_empty(Part whole) {
  std::vector<Part> parts;
  int32_t begin = 0;
  int32_t end = 0;
  for (size_t first = 0; first < whole.items.size();) {
    begin = whole.items[first].begin;
    end = whole.items[first].end;
    size_t last = first + 1;
    while (last < whole.items.size() && whole.items[last].begin < end) {
      end = std::max(end, whole.items[last].end);
      ++last;
    }
    Part part;
    for (size_t i = first; i < last; ++i) {
      part.items.push_back(whole.items[i]);
      part.items.back().begin -= begin;
      part.items.back().end -= begin;
    }
    part.ground_bytes.assign(whole.ground_bytes.begin() + begin, whole.ground_bytes.begin() + end);
    parts.push_back(std::move(part));
    first = last;
  }
  return parts;
}

// Puts the items that live as long as the part on its ground, if the ground is flat. True if there
// were any. Items with padding are left out: padding is best on top.
bool settle_longest(Part& part, std::vector<Settled>& settled) {
  const auto count = static_cast<int32_t>(part.ground_bytes.size());
  int64_t height_bytes = part.ground_bytes.front();
  const auto is_other = [&](int64_t bytes) { return bytes != height_bytes; };
  if (std::ranges::any_of(part.ground_bytes, is_other)) return false;
  std::vector<Item> shorter;
  for (const Item& item : part.items) {
    if (item.begin > 0 || item.end < count || item.padding_bytes > 0) {
      shorter.push_back(item);
      continue;
    }
    settled.push_back({.block = item.block, .offset_bytes = height_bytes});
    height_bytes += item.size_bytes;
  }
  if (shorter.size() == part.items.size()) return false;
  part.items = std::move(shorter);
  part.ground_bytes.assign(part.ground_bytes.size(), height_bytes);
  return true;
}

}  // namespace

Sections cut_into_sections(std::span<const Block> blocks) {
  std::vector<Tick> ticks;
  ticks.reserve(2 * blocks.size());
  for (const Block& block : blocks) {
    ticks.push_back(block.live.begin);
    ticks.push_back(block.live.end);
  }
  std::sort(ticks.begin(), ticks.end());
  ticks.erase(std::unique(ticks.begin(), ticks.end()), ticks.end());
  const auto at = [&](Tick tick) {
    return static_cast<size_t>(std::lower_bound(ticks.begin(), ticks.end(), tick) - ticks.begin());
  };
  std::vector<char> is_birth(ticks.size(), 0);
  std::vector<char> is_death(ticks.size(), 0);
  for (const Block& block : blocks) {
    is_birth[at(block.live.begin)] = 1;
    is_death[at(block.live.end)] = 1;
  }
  // A new section starts where a birth follows a death; a death closes the section before it.
  std::vector<int32_t> birth_section(ticks.size());
  std::vector<int32_t> death_section(ticks.size());
  int32_t section = 0;
  bool has_death = false;
  for (size_t i = 0; i < ticks.size(); ++i) {
    death_section[i] = section;
    has_death = has_death || is_death[i] != 0;
    if (is_birth[i] != 0 && has_death) {
      ++section;
      has_death = false;
    }
    birth_section[i] = section;
  }
  Sections sections;
  sections.count = section + 1;
  for (const Block& block : blocks) {
    sections.begin.push_back(birth_section[at(block.live.begin)]);
    sections.end.push_back(death_section[at(block.live.end)] + 1);
  }
  return sections;
}

Parts split_into_parts(std::vector<Item> items, std::vector<int64_t> ground_bytes) {
  Parts result;
  std::vector<Part> todo =
      cut_where_empty({.items = std::move(items), .ground_bytes = std::move(ground_bytes)});
  for (int depth = 0; depth < kMaxDepth && !todo.empty(); ++depth) {
    std::vector<Part> next;
    for (Part& part : todo) {
      if (!settle_longest(part, result.settled)) {
        result.parts.push_back(std::move(part));
        continue;
      }
      std::vector<Part> smaller = cut_where_empty(std::move(part));
      std::ranges::move(smaller, std::back_inserter(next));
    }
    todo = std::move(next);
  }
  std::ranges::move(todo, std::back_inserter(result.parts));
  return result;
}

std::vector<int64_t> live_bytes_of(const Part& part) {
  std::vector<int64_t> live_bytes(part.ground_bytes.size() + 1, 0);
  for (const Item& item : part.items) {
    live_bytes[static_cast<size_t>(item.begin)] += item.size_bytes;
    live_bytes[static_cast<size_t>(item.end)] -= item.size_bytes;
  }
  live_bytes.pop_back();
  int64_t sum = 0;
  for (int64_t& bytes : live_bytes) bytes = sum += bytes;
  return live_bytes;
}

int64_t fullest_bytes_of(const Part& part) {
  const std::vector<int64_t> live_bytes = live_bytes_of(part);
  int64_t fullest_bytes = 0;
  for (size_t i = 0; i < live_bytes.size(); ++i) {
    fullest_bytes = std::max(fullest_bytes, part.ground_bytes[i] + live_bytes[i]);
  }
  return fullest_bytes;
}

}  // namespace fitstep

#include "fitstep/planner/placer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/plan/layout.h"
#include "fitstep/planner/random.h"
#include "fitstep/planner/skyline.h"

namespace fitstep {
namespace {

// score = a * log width + b * log size + c * crowd + d * earliness + noise, each scaled to 0 .. 1.
// No fixed choice is good on every program, so passes try many.
constexpr size_t kFeatureCount = 4;
using Weights = std::array<double, kFeatureCount>;

int64_t align_up(int64_t bytes, int64_t alignment_bytes) {
  return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

// What stands before the first pass.
struct Problem {
  Skyline skyline;
  std::vector<std::array<double, kFeatureCount>> features;  // One per item.
  int64_t bound_bytes = 0;                                  // No layout is lower.
};

int64_t most_live_bytes(std::span<const Block> blocks, const Sections& sections) {
  std::vector<int64_t> change(static_cast<size_t>(sections.count) + 1, 0);
  for (size_t i = 0; i < blocks.size(); ++i) {
    change[static_cast<size_t>(sections.begin[i])] += blocks[i].size_bytes;
    change[static_cast<size_t>(sections.end[i])] -= blocks[i].size_bytes;
  }
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;
  for (const int64_t bytes : change) peak_bytes = std::max(peak_bytes, live_bytes += bytes);
  return peak_bytes;
}

// Height of every section's fixed blocks, at least the bottom.
std::vector<int64_t> ground_of(std::span<const Block> blocks, const Sections& sections,
                               const PlaceOptions& options) {
  const int64_t bottom_bytes = align_up(options.bottom_bytes, options.alignment_bytes);
  std::vector<int64_t> ground_bytes(static_cast<size_t>(sections.count), bottom_bytes);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].fixed_offset_bytes < 0) continue;
    const int64_t top_bytes =
        align_up(blocks[i].fixed_offset_bytes + blocks[i].size_bytes, options.alignment_bytes);
    if (top_bytes <= bottom_bytes) continue;
    for (int32_t section = sections.begin[i]; section < sections.end[i]; ++section) {
      int64_t& height_bytes = ground_bytes[static_cast<size_t>(section)];
      height_bytes = std::max(height_bytes, top_bytes);
    }
  }
  return ground_bytes;
}

// The most crowded section that each item lives in, by a sparse table of range maxima.
std::vector<int64_t> crowds_of(const std::vector<Item>& items, std::vector<int64_t> live_bytes) {
  std::vector<std::vector<int64_t>> table = {std::move(live_bytes)};
  for (size_t width = 1; 2 * width <= table[0].size(); width *= 2) {
    const std::vector<int64_t>& half = table.back();
    std::vector<int64_t> whole(table[0].size() - 2 * width + 1);
    for (size_t i = 0; i < whole.size(); ++i) whole[i] = std::max(half[i], half[i + width]);
    table.push_back(std::move(whole));
  }
  std::vector<int64_t> crowds;
  for (const Item& item : items) {
    size_t level = 0;
    while ((2 << level) <= item.end - item.begin) ++level;
    const std::vector<int64_t>& row = table[level];
    crowds.push_back(std::max(row[static_cast<size_t>(item.begin)],
                              row[static_cast<size_t>(item.end) - (size_t{1} << level)]));
  }
  return crowds;
}

Problem make_problem(std::span<const Block> blocks, const Sections& sections,
                     const PlaceOptions& options) {
  std::vector<Item> items;
  std::vector<int64_t> live_bytes = ground_of(blocks, sections, options);
  const std::vector<int64_t> ground_bytes = live_bytes;
  std::vector<int64_t> change(static_cast<size_t>(sections.count) + 1, 0);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].fixed_offset_bytes >= 0 || blocks[i].size_bytes == 0) continue;
    items.push_back({.block = static_cast<int32_t>(i),
                     .begin = sections.begin[i],
                     .end = sections.end[i],
                     .size_bytes = align_up(blocks[i].size_bytes, options.alignment_bytes)});
    change[static_cast<size_t>(sections.begin[i])] += items.back().size_bytes;
    change[static_cast<size_t>(sections.end[i])] -= items.back().size_bytes;
  }
  std::ranges::stable_sort(items, {}, &Item::begin);
  int64_t sum = 0;
  int64_t bound_bytes = 0;
  for (size_t i = 0; i < live_bytes.size(); ++i) {
    live_bytes[i] += sum += change[i];
    if (sum > 0) bound_bytes = std::max(bound_bytes, live_bytes[i]);
  }
  const std::vector<int64_t> crowds = crowds_of(items, std::move(live_bytes));
  const double log_sections = std::log(sections.count + 1.0);
  const double log_bound = std::log(static_cast<double>(bound_bytes) + 2.0);
  std::vector<std::array<double, kFeatureCount>> features;
  for (size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    features.push_back({std::log(item.end - item.begin + 0.0) / log_sections,
                        std::log(static_cast<double>(item.size_bytes)) / log_bound,
                        3.0 * static_cast<double>(crowds[i]) / static_cast<double>(bound_bytes),
                        1.0 - static_cast<double>(item.begin) / sections.count});
  }
  return {.skyline = Skyline(std::move(items), ground_bytes),
          .features = std::move(features),
          .bound_bytes = bound_bytes};
}

// How the next pass scores: first every feature on its own and with others, then at random, then
// (two of three) close to the best so far.
struct Recipe {
  Weights weights{};
  std::vector<double> noise;
};

Recipe next_recipe(int32_t pass, const Recipe& best, size_t item_count, Random& random) {
  constexpr int32_t kAllSubsets = 16;
  constexpr int32_t kRandomPasses = 24;
  Recipe recipe;
  recipe.noise.assign(item_count, 0);
  if (pass < kAllSubsets) {
    for (size_t i = 0; i < kFeatureCount; ++i) recipe.weights[i] = (pass >> i) & 1;
    return recipe;
  }
  if (pass < kRandomPasses || best.noise.empty() || random.next() % 3 == 0) {
    for (double& weight : recipe.weights) {
      weight = random.uniform() < 0.35 ? 0 : random.uniform();
    }
    if (pass < kRandomPasses) return recipe;
    const double scale = std::pow(10.0, -3 + 2.5 * random.uniform());
    for (double& noise : recipe.noise) noise = scale * random.normal();
    return recipe;
  }
  recipe = best;
  const double scale = std::pow(10.0, -3 + 2.5 * random.uniform());
  const double share = std::pow(10.0, -3 * random.uniform());
  for (double& noise : recipe.noise) {
    if (random.uniform() < share) noise += scale * random.normal();
  }
  return recipe;
}

}  // namespace

Layout place_blocks(std::span<const Block> blocks, const PlaceOptions& options) {
  const Sections sections = cut_into_sections(blocks);
  Layout layout;
  layout.peak_bytes = most_live_bytes(blocks, sections);
  layout.offset_bytes.assign(blocks.size(),
                             align_up(options.bottom_bytes, options.alignment_bytes));
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].fixed_offset_bytes < 0) continue;
    layout.offset_bytes[i] = blocks[i].fixed_offset_bytes;
    layout.height_bytes =
        std::max(layout.height_bytes, blocks[i].fixed_offset_bytes + blocks[i].size_bytes);
  }
  Problem problem = make_problem(blocks, sections, options);
  const std::vector<Item>& items = problem.skyline.items();
  if (items.empty()) return layout;

  Random random(options.seed);
  Recipe best;
  int64_t best_bytes = Skyline::kAborted;
  std::vector<double> score(items.size());
  for (int32_t pass = 0; pass < std::max(options.passes, 1); ++pass) {
    const Recipe recipe = next_recipe(pass, best, items.size(), random);
    for (size_t i = 0; i < items.size(); ++i) {
      score[i] = recipe.noise[i];
      for (size_t k = 0; k < kFeatureCount; ++k) {
        score[i] += recipe.weights[k] * problem.features[i][k];
      }
    }
    const int64_t height_bytes = problem.skyline.fill(score, best_bytes);
    if (height_bytes >= best_bytes) continue;
    best_bytes = height_bytes;
    best = recipe;
    for (size_t i = 0; i < items.size(); ++i) {
      layout.offset_bytes[static_cast<size_t>(items[i].block)] = problem.skyline.offset_bytes()[i];
    }
    if (best_bytes <= std::max(problem.bound_bytes, options.target_bytes)) break;
  }
  for (const Item& item : items) {
    const auto block = static_cast<size_t>(item.block);
    layout.height_bytes =
        std::max(layout.height_bytes, layout.offset_bytes[block] + blocks[block].size_bytes);
  }
  return layout;
}

}  // namespace fitstep

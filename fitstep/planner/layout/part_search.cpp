#include "fitstep/planner/layout/part_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include "fitstep/base/deadline.h"
#include "fitstep/base/random.h"
#include "fitstep/planner/layout/exact_layout.h"
#include "fitstep/planner/layout/sections.h"
#include "fitstep/planner/layout/skyline.h"
#include "fitstep/planner/parts.h"

namespace fitstep {
namespace {

constexpr size_t kGuidedRecipes = 48;

// More items take too much memory and stack: the exact search lists neighbours and recurses.
constexpr size_t kMostExactItems = 1000;

// By item: bytes of the fullest section in its lifetime, from a sparse table of range maxima.
std::vector<int64_t> crowds_of(const std::vector<Item>& items, std::vector<int64_t> full_bytes) {
  std::vector<std::vector<int64_t>> table = {std::move(full_bytes)};
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

}  // namespace

PartSearch::PartSearch(Part part, uint64_t seed)
    : part_(std::move(part)), skyline_(part_), random_(seed) {
  int64_t padding_bytes = 0;  // At most this much padding is on top: we do not know which item is.
  for (const Item& item : part_.items) {
    padding_bytes = std::max(padding_bytes, item.padding_bytes);
    unit_bytes_ = std::gcd(unit_bytes_, item.size_bytes);
  }
  for (const int64_t bytes : part_.ground_bytes) unit_bytes_ = std::gcd(unit_bytes_, bytes);
  if (padding_bytes > 0) unit_bytes_ = 1;
  fullest_bytes_ = fullest_bytes_of(part_);
  bound_bytes_ = fullest_bytes_ - padding_bytes;
}

// score = a * log width + b * log size + c * crowd + d * earliness + noise. No fixed weights are
// good for every program, so passes try many.
void PartSearch::learn_features() {
  std::vector<int64_t> full_bytes = live_bytes_of(part_);
  for (size_t i = 0; i < full_bytes.size(); ++i) full_bytes[i] += part_.ground_bytes[i];
  const std::vector<int64_t> crowds = crowds_of(part_.items, std::move(full_bytes));
  const auto sections = static_cast<double>(part_.ground_bytes.size());
  const double log_sections = std::log(sections + 1);
  const double log_fullest = std::log(static_cast<double>(fullest_bytes_) + 2);
  for (size_t i = 0; i < part_.items.size(); ++i) {
    const Item& item = part_.items[i];
    features_.push_back({std::log(item.end - item.begin + 0.0) / log_sections,
                         std::log(static_cast<double>(item.size_bytes)) / log_fullest,
                         3.0 * static_cast<double>(crowds[i]) / static_cast<double>(fullest_bytes_),
                         1.0 - static_cast<double>(item.begin) / sections});
  }
  score_.resize(part_.items.size());
}

// Items of one size on flat ground: each takes the lowest place that is free when it begins. So the
// number of places equals the most items that are live together.
bool PartSearch::color_equal_sizes() {
  const int64_t ground_bytes = part_.ground_bytes.front();
  const int64_t size_bytes = part_.items.front().size_bytes;
  const bool is_flat =
      std::ranges::all_of(part_.ground_bytes, [&](int64_t bytes) { return bytes == ground_bytes; });
  const bool is_equal = std::ranges::all_of(
      part_.items, [&](const Item& item) { return item.size_bytes == size_bytes; });
  if (!is_flat || !is_equal) return false;
  struct Taken {
    int32_t end = 0;
    int64_t offset_bytes = 0;
    bool operator>(const Taken& other) const { return end > other.end; }
  };
  std::priority_queue<Taken, std::vector<Taken>, std::greater<>> taken;
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> free;
  std::vector<int64_t> offset_bytes;
  int64_t next_bytes = ground_bytes;
  for (const Item& item : part_.items) {
    for (; !taken.empty() && taken.top().end <= item.begin; taken.pop()) {
      free.push(taken.top().offset_bytes);
    }
    if (free.empty()) {
      free.push(next_bytes);
      next_bytes += size_bytes;
    }
    offset_bytes.push_back(free.top());
    taken.push({.end = item.end, .offset_bytes = free.top()});
    free.pop();
  }
  keep(offset_bytes);
  return true;
}

// First every subset of the features; then weights that did best on test programs, guided by slack;
// then random weights (one of three) or a variation of the best so far (two of three).
PartSearch::Recipe PartSearch::next_recipe() {
  constexpr size_t kAllSubsets = 16;
  const size_t pass = pass_count_++;
  if (pass < kAllSubsets) {
    Recipe recipe;
    for (size_t i = 0; i < kFeatureCount; ++i) recipe.weights[i] = (pass >> i) % 2 == 0 ? 0 : 1;
    recipe.noise.assign(part_.items.size(), 0);
    return recipe;
  }
  if (has("guides") && pass - kAllSubsets < kGuidedRecipes)
    return guided_recipe(pass - kAllSubsets);
  return best_.noise.empty() || random_.next() % 3 == 0 ? random_recipe() : varied_recipe();
}

// With negative earliness (half of the recipes) the skyline grows from the end of time.
PartSearch::Recipe PartSearch::guided_recipe(size_t number) const {
  constexpr std::array<Weights, 12> kWeights = {{{0, 0, 1, -1},
                                                 {1, 0, 0, -1},
                                                 {1, 0, 1, -1},
                                                 {1, 0, 0, 0},
                                                 {0, 0, 1, 0},
                                                 {1, 0, 1, 0},
                                                 {0, 0, 0, -1},
                                                 {1, 0, 0, 1},
                                                 {1, 0, 1, 1},
                                                 {1, 1, 0, 0},
                                                 {1, 1, 1, -1},
                                                 {0, 1, 1, -1}}};
  static_assert(kGuidedRecipes == 4 * kWeights.size());
  constexpr std::array<size_t, 4> kSeen = {1, 2, 0, 2};
  const size_t round = number / kWeights.size();
  return {.weights = kWeights[number % kWeights.size()],
          .noise = std::vector<double>(part_.items.size(), 0),
          .guide = make_guide(kSeen[round], round == 3 ? 1e-2 : 1)};
}

PartSearch::Recipe PartSearch::random_recipe() {
  Recipe recipe;
  for (double& weight : recipe.weights) weight = random_.uniform() < 0.35 ? 0 : random_.uniform();
  if (random_.next() % 2 == 0) recipe.weights.back() *= -1;
  recipe.guide = make_guide(random_.next() % 3, std::pow(10.0, -4 * random_.uniform()));
  const double scale = std::pow(10.0, -3 + 2.5 * random_.uniform());
  for (size_t i = 0; i < part_.items.size(); ++i) {
    recipe.noise.push_back(scale * random_.normal());
  }
  return recipe;
}

// The best recipe with slightly other weights, or with other noise for some of the items.
PartSearch::Recipe PartSearch::varied_recipe() {
  Recipe recipe = best_;
  const double scale = std::pow(10.0, -3 + 2.5 * random_.uniform());
  if (random_.next() % 3 == 0) {
    for (double& weight : recipe.weights) weight += scale * random_.normal();
    return recipe;
  }
  const double share = std::pow(10.0, -3 * random_.uniform());
  for (double& noise : recipe.noise) {
    if (random_.uniform() < share) noise += scale * random_.normal();
  }
  return recipe;
}

// `sections_seen`: 0 looks nowhere, 1 at the sides, 2 also inside. `tight_share`: of the height.
Skyline::Guide PartSearch::make_guide(size_t sections_seen, double tight_share) const {
  return {.looks_at_sides = sections_seen > 0,
          .looks_inside = sections_seen > 1,
          .tight_bytes = static_cast<int64_t>(tight_share * static_cast<double>(fullest_bytes_))};
}

void PartSearch::fill_once() {
  if (features_.empty()) learn_features();
  Recipe recipe = next_recipe();
  for (size_t i = 0; i < score_.size(); ++i) {
    score_[i] = recipe.noise[i];
    for (size_t k = 0; k < kFeatureCount; ++k) score_[i] += recipe.weights[k] * features_[i][k];
  }
  // An equal height is accepted too, so the search can move on from a plateau.
  const bool is_first = offset_bytes_.empty();
  const int64_t limit_bytes = is_first ? Skyline::kAborted : height_bytes_ + 1;
  if (skyline_.fill(score_, limit_bytes, recipe.guide) == Skyline::kAborted) return;
  keep(skyline_.offset_bytes());
  best_ = std::move(recipe);
}

void PartSearch::keep(const std::vector<int64_t>& offset_bytes) {
  offset_bytes_ = offset_bytes;
  height_bytes_ = 0;
  for (size_t i = 0; i < offset_bytes.size(); ++i) {
    const Item& item = part_.items[i];
    height_bytes_ = std::max(height_bytes_, offset_bytes[i] + item.size_bytes - item.padding_bytes);
  }
}

void PartSearch::improve(int64_t goal_bytes, const Work& work, const Deadline& deadline) {
  if (offset_bytes_.empty() && color_equal_sizes()) return;
  const int64_t enough_bytes = std::max(goal_bytes, fullest_bytes_);
  for (int64_t i = 0; i < work.passes || offset_bytes_.empty(); ++i) {
    if (height_bytes_ <= enough_bytes) break;
    if (!offset_bytes_.empty() && deadline.has_passed()) return;
    fill_once();
  }
  if (height_bytes_ <= goal_bytes || !is_for_exact_search()) return;
  search_exactly(goal_bytes, work.exact_nodes, deadline);
}

bool PartSearch::is_for_exact_search() const { return part_.items.size() <= kMostExactItems; }

bool PartSearch::can_improve(int64_t goal_bytes, const Work& work) const {
  if (height_bytes_ <= std::max(goal_bytes, bound_bytes_)) return false;
  return (work.passes > 0 && height_bytes_ > fullest_bytes_) ||
         (work.exact_nodes > 0 && is_for_exact_search());
}

// Every height is a sum of sizes on a ground, so the next one is a multiple of `unit_bytes_`.
int64_t PartSearch::next_height(int64_t bytes) const {
  return (bytes / unit_bytes_ + 1) * unit_bytes_;
}

void PartSearch::search_exactly(int64_t goal_bytes, int64_t node_limit, const Deadline& deadline) {
  if (node_limit <= 0 || !has("exact layout")) return;
  if (exact_ == nullptr) exact_ = std::make_unique<ExactLayout>(part_, random_.next());
  int64_t low_bytes = std::max(goal_bytes, bound_bytes_);
  const int64_t end = exact_->node_count() + node_limit;
  // A third of the nodes for the goal, the rest for heights half-way up to the known height. A goal
  // that is too hard must not use up all nodes.
  int64_t share = node_limit / 3 + 1;
  for (int64_t try_bytes = low_bytes; try_bytes < height_bytes_;) {
    const int64_t left = end - exact_->node_count();
    if (left <= 0 || deadline.has_passed()) return;
    const bool is_found = try_capacity(try_bytes, std::min(left, share), deadline);
    share = node_limit / 10 + 1;
    if (!is_found) low_bytes = next_height(try_bytes);
    try_bytes = low_bytes + (height_bytes_ - low_bytes) / 2 / unit_bytes_ * unit_bytes_;
  }
}

// True if a layout was found and kept. A capacity that is proven too small raises the bound.
bool PartSearch::try_capacity(int64_t capacity_bytes, int64_t node_limit,
                              const Deadline& deadline) {
  switch (exact_->run(capacity_bytes, node_limit, deadline)) {
    case ExactLayout::Answer::Found:
      keep(exact_->offset_bytes());
      return true;
    case ExactLayout::Answer::Impossible:
      bound_bytes_ = std::max(bound_bytes_, next_height(capacity_bytes));
      return false;
    case ExactLayout::Answer::GaveUp:
      return false;
  }
  return false;
}

}  // namespace fitstep

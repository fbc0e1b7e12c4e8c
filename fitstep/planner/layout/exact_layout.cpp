#include "fitstep/planner/layout/exact_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "fitstep/base/deadline.h"
#include "fitstep/base/random.h"
#include "fitstep/planner/layout/sections.h"

namespace fitstep {
namespace {

constexpr int32_t kNone = -1;
constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();
constexpr size_t kFailedEntries = size_t{1} << 18U;

// Luby's sequence 1 1 2 1 1 2 4 1 1 2 ...: lengths of the attempts between restarts.
int64_t luby(int32_t i) {
  while (true) {
    const auto next = static_cast<uint32_t>(i) + 1;
    if (std::has_single_bit(next)) return static_cast<int64_t>(next / 2);
    i -= static_cast<int32_t>(std::bit_floor(next)) - 1;
  }
}

uint64_t mix(uint64_t word) { return Random(word).next(); }

bool is_same(const Item& a, const Item& b) {
  return a.begin == b.begin && a.end == b.end && a.size_bytes == b.size_bytes &&
         a.padding_bytes == b.padding_bytes;
}

}  // namespace

ExactLayout::ExactLayout(Part part, uint64_t seed) : part_(std::move(part)), random_(seed) {
  const size_t sections = part_.ground_bytes.size();
  const size_t items = part_.items.size();
  crossing_.resize(sections);
  first_item_.assign(sections + 1, static_cast<int32_t>(items));
  for (size_t i = items; i-- > 0;) {
    const Item& item = part_.items[i];
    first_item_[static_cast<size_t>(item.begin)] = static_cast<int32_t>(i);
    item_hash_.push_back(random_.next());
  }
  for (size_t s = sections; s-- > 0;) first_item_[s] = std::min(first_item_[s], first_item_[s + 1]);
  for (size_t i = 0; i < items; ++i) {
    for (int32_t s = part_.items[i].begin; s < part_.items[i].end; ++s) {
      crossing_[static_cast<size_t>(s)].push_back(static_cast<int32_t>(i));
    }
  }
  learn_neighbours();
  const std::vector<int64_t> live_bytes = live_bytes_of(part_);
  const int64_t most_bytes = *std::ranges::max_element(live_bytes);
  for (const Item& item : part_.items) {
    const auto live = live_bytes.begin();
    const int64_t crowd_bytes = *std::max_element(live + item.begin, live + item.end);
    crowd_.push_back(static_cast<double>(crowd_bytes) / static_cast<double>(most_bytes));
  }
  weight_.assign(sections, 1);
  failed_.assign(kFailedEntries, 0);
  offset_bytes_.assign(items, 0);
}

void ExactLayout::learn_neighbours() {
  const std::vector<Item>& items = part_.items;
  neighbours_.resize(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    for (size_t k = i + 1; k < items.size() && items[k].begin < items[i].end; ++k) {
      neighbours_[i].push_back(static_cast<int32_t>(k));
      neighbours_[k].push_back(static_cast<int32_t>(i));
    }
  }
}

ExactLayout::Answer ExactLayout::run(int64_t capacity_bytes, int64_t node_limit,
                                     const Deadline& deadline) {
  const auto unit = static_cast<int64_t>(4 * part_.items.size() + 200);
  deadline_ = &deadline;
  for (int64_t left = node_limit; left > 0 && !deadline.has_passed();) {
    const int64_t before = node_count_;
    start(capacity_bytes);
    draw_order();  // 1.
    const Answer answer = attempt(std::min(left, unit * luby(++attempts_)));
    if (answer != Answer::GaveUp) return answer;
    left -= node_count_ - before;
    for (double& weight : weight_) weight = 1 + (weight - 1) / 2;  // Old failures matter less.
  }
  return Answer::GaveUp;
}

void ExactLayout::start(int64_t capacity_bytes) {
  const size_t sections = part_.ground_bytes.size();
  const std::vector<Item>& items = part_.items;
  capacity_bytes_ = capacity_bytes;
  floor_bytes_ = part_.ground_bytes;
  to_come_bytes_ = live_bytes_of(part_);
  roof_bytes_.assign(sections, capacity_bytes);
  begin_hash_.assign(sections, 0);
  witness_.assign(sections, kNone);
  low_bytes_.assign(items.size(), 0);
  is_placed_.assign(items.size(), 0);
  changes_.clear();
  depth_ = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    begin_hash_[static_cast<size_t>(items[i].begin)] ^= item_hash_[i];
    for (auto s = static_cast<size_t>(items[i].begin); s < static_cast<size_t>(items[i].end); ++s) {
      low_bytes_[i] = std::max(low_bytes_[i], floor_bytes_[s]);
      roof_bytes_[s] = std::max(roof_bytes_[s], capacity_bytes + items[i].padding_bytes);
    }
  }
}

// 1. The first attempts sort by width, crowd or size; later ones by random mixtures of the three.
void ExactLayout::draw_order() {
  constexpr std::array<std::array<double, 3>, 4> kFirst = {
      {{1000, 1, 0}, {0, 1, 1000}, {1, 0, 1000}, {1, 1000, 0}}};
  std::array<double, 3> weights{};
  double noise = 0;
  if (attempts_ < static_cast<int32_t>(kFirst.size())) {
    weights = kFirst[static_cast<size_t>(attempts_)];
  } else {
    for (double& weight : weights) weight = random_.uniform() < 0.35 ? 0 : random_.uniform();
    noise = std::pow(10.0, -2 + 1.5 * random_.uniform());
  }
  const double log_sections = std::log(static_cast<double>(part_.ground_bytes.size()) + 1);
  const double log_capacity = std::log(static_cast<double>(capacity_bytes_) + 2);
  std::vector<double> score;
  for (size_t i = 0; i < part_.items.size(); ++i) {
    const Item& item = part_.items[i];
    score.push_back(weights[0] * std::log(item.end - item.begin + 0.0) / log_sections +
                    weights[1] * std::log(static_cast<double>(item.size_bytes)) / log_capacity +
                    weights[2] * 3 * crowd_[i] + noise * (random_.uniform() - 0.5));
  }
  std::vector<size_t> order(score.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return score[a] > score[b]; });
  rank_.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) rank_[order[i]] = static_cast<int32_t>(i);
}

ExactLayout::Answer ExactLayout::attempt(int64_t node_limit) {
  const std::vector<Item>& items = part_.items;
  node_end_ = node_count_ + node_limit;
  for (size_t s = 0; s < floor_bytes_.size(); ++s) {
    if (slack_bytes(s) < 0) return Answer::Impossible;
  }
  for (size_t i = 0; i < items.size(); ++i) {
    if (low_bytes_[i] > capacity_bytes_ - items[i].size_bytes + items[i].padding_bytes) {
      return Answer::Impossible;
    }
  }
  touched_begin_ = 0;
  touched_end_ = static_cast<int32_t>(floor_bytes_.size());
  if (!settle_floors()) return Answer::Impossible;
  return solve(0, static_cast<int32_t>(floor_bytes_.size()));
}

// 2. Solves each range of sections between finished sections by itself: they are independent.
ExactLayout::Answer ExactLayout::solve(int32_t begin, int32_t end) {
  const auto is_done = [&](int32_t s) { return to_come_bytes_[static_cast<size_t>(s)] == 0; };
  while (true) {
    while (begin < end && is_done(begin)) ++begin;
    if (begin == end) return Answer::Found;
    int32_t next = begin;
    while (next < end && !is_done(next)) ++next;
    const Answer answer = solve_joined(begin, next);
    if (answer != Answer::Found) return answer;
    begin = next;
  }
}

ExactLayout::Answer ExactLayout::solve_joined(int32_t begin, int32_t end) {
  constexpr int64_t kNodesPerLook = 64;
  const auto max_depth = static_cast<int32_t>(4 * part_.items.size() + 200);  // Spares the stack.
  if (++node_count_ > node_end_ || depth_ >= max_depth) return Answer::GaveUp;
  if (node_count_ % kNodesPerLook == 0 && deadline_->has_passed()) return Answer::GaveUp;
  const uint64_t hash = hash_of(begin, end);  // 3.
  if (failed_[hash % kFailedEntries] == hash) return Answer::Impossible;
  const Branch branch = choose(begin, end);  // 4.
  ++depth_;
  const Answer answer = try_branch(branch, begin, end);  // 5.
  --depth_;
  if (answer == Answer::Impossible) failed_[hash % kFailedEntries] = hash;
  return answer;
}

// 5. Of equal items only the first is tried.
ExactLayout::Answer ExactLayout::try_branch(const Branch& branch, int32_t begin, int32_t end) {
  const std::vector<int32_t> candidates = candidates_at(branch.section);
  const size_t mark = changes_.size();
  for (auto it = candidates.begin(); it != candidates.end(); ++it) {
    const Item& item = part_.items[static_cast<size_t>(*it)];
    const bool was_tried = std::any_of(candidates.begin(), it, [&](int32_t other) {
      return is_same(part_.items[static_cast<size_t>(other)], item);
    });
    if (was_tried) continue;
    if (place(*it)) {
      const Answer answer = solve(begin, end);
      if (answer != Answer::Impossible) return answer;
    }
    undo_to(mark);
  }
  if (branch.hole_end_bytes >= 0) {
    if (leave_hole(branch.section, branch.hole_end_bytes)) {
      const Answer answer = solve(begin, end);
      if (answer != Answer::Impossible) return answer;
    }
    undo_to(mark);
  }
  if (branch.choices == 0) fail_at(branch.section);
  return Answer::Impossible;
}

// The items that can lie on the floor at the section, in the order of this attempt.
std::vector<int32_t> ExactLayout::candidates_at(int32_t section) const {
  const auto s = static_cast<size_t>(section);
  std::vector<int32_t> candidates;
  for (const int32_t item : crossing_[s]) {
    const auto i = static_cast<size_t>(item);
    if (is_placed_[i] == 0 && low_bytes_[i] == floor_bytes_[s]) candidates.push_back(item);
  }
  std::ranges::sort(candidates, {}, [&](int32_t i) { return rank_[static_cast<size_t>(i)]; });
  return candidates;
}

uint64_t ExactLayout::hash_of(int32_t begin, int32_t end) const {
  uint64_t hash = mix(static_cast<uint64_t>(capacity_bytes_));
  for (int32_t section = begin; section < end; ++section) {
    const auto s = static_cast<size_t>(section);
    hash ^= mix(static_cast<uint64_t>(floor_bytes_[s]) * 1000003 + s) ^ begin_hash_[s];
  }
  return hash == 0 ? 1 : hash;  // 0 marks an empty entry.
}

// 4. Looks for valleys: ranges of sections on one floor, lower than both sides.
ExactLayout::Branch ExactLayout::choose(int32_t begin, int32_t end) {
  Branch best;
  const auto floor = [&](int32_t s) { return floor_bytes_[static_cast<size_t>(s)]; };
  for (int32_t s = begin; s < end;) {
    Valley valley{.begin = s, .end = s + 1};
    while (valley.end < end && floor(valley.end) == floor(s)) ++valley.end;
    const int64_t left = s > begin ? floor(s - 1) : kEndless;
    const int64_t right = valley.end < end ? floor(valley.end) : kEndless;
    valley.side_bytes = std::min(left, right);
    if (valley.side_bytes > floor(s)) look_into(valley, best);
    if (best.section >= 0 && best.choices <= 1) break;
    s = valley.end;
  }
  return best;
}

// 4. The best branch in the valley. At most one choice is always best: it costs nothing to take it.
void ExactLayout::look_into(const Valley& valley, Branch& best) {
  count_candidates(valley);
  const int64_t floor_bytes = floor_bytes_[static_cast<size_t>(valley.begin)];
  for (int32_t section = valley.begin; section < valley.end; ++section) {
    const auto s = static_cast<size_t>(section);
    const auto k = static_cast<size_t>(section - valley.begin);
    Branch branch{.section = section, .slack_bytes = slack_bytes(s), .choices = count_[k]};
    const int64_t least_bytes = std::min(least_before_[k], least_after_[k]);
    int64_t hole_bytes = valley.side_bytes == kEndless ? kEndless : valley.side_bytes - floor_bytes;
    hole_bytes = std::min(hole_bytes, least_bytes);
    if (hole_bytes <= branch.slack_bytes) {
      branch.hole_end_bytes = floor_bytes + hole_bytes;
      ++branch.choices;
    }
    branch.cost = branch.choices <= 1 ? branch.choices - 2 : branch.choices / weight_[s];
    const bool is_better = best.section < 0 || branch.cost < best.cost ||
                           (branch.cost == best.cost && branch.slack_bytes < best.slack_bytes);
    if (is_better) best = branch;
    if (best.choices == 0) return;
  }
}

// 4. By section of the valley: how many items may lie there, and the smallest on either side.
void ExactLayout::count_candidates(const Valley& valley) {
  const auto width = static_cast<size_t>(valley.end - valley.begin);
  count_.assign(width + 1, 0);
  least_before_.assign(width + 1, kEndless);
  least_after_.assign(width + 1, kEndless);
  const auto first = static_cast<size_t>(first_item_[static_cast<size_t>(valley.begin)]);
  const auto last = static_cast<size_t>(first_item_[static_cast<size_t>(valley.end)]);
  for (size_t i = first; i < last; ++i) {
    const Item& item = part_.items[i];
    if (is_placed_[i] != 0 || item.end > valley.end) continue;
    const auto begin = static_cast<size_t>(item.begin - valley.begin);
    const auto end = static_cast<size_t>(item.end - valley.begin);
    ++count_[begin];
    --count_[end];
    least_before_[end] = std::min(least_before_[end], item.size_bytes);
    if (begin > 0) least_after_[begin - 1] = std::min(least_after_[begin - 1], item.size_bytes);
  }
  for (size_t k = 1; k < width; ++k) {
    count_[k] += count_[k - 1];
    least_before_[k] = std::min(least_before_[k], least_before_[k - 1]);
  }
  for (size_t k = width - 1; k-- > 0;) {
    least_after_[k] = std::min(least_after_[k], least_after_[k + 1]);
  }
}

}  // namespace fitstep

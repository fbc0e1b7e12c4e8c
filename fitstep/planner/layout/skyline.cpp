#include "fitstep/planner/layout/skyline.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <vector>

#include "fitstep/planner/layout/sections.h"

namespace fitstep {
namespace {

constexpr int32_t kManyChoices = 8;  // This many or more choices count as equal.

// By section: index of the first entry of the sorted `places` at this section or later.
std::vector<int32_t> first_at(std::span<const int32_t> places, size_t sections) {
  std::vector<int32_t> first(sections + 2, static_cast<int32_t>(places.size()));
  for (size_t i = places.size(); i-- > 0;) {
    first[static_cast<size_t>(places[i])] = static_cast<int32_t>(i);
  }
  for (size_t s = sections + 1; s-- > 0;) first[s] = std::min(first[s], first[s + 1]);
  return first;
}

}  // namespace

bool Skyline::Valley::operator>(const Valley& other) const {
  return std::tie(choices, height_bytes, begin, stamp) >
         std::tie(other.choices, other.height_bytes, other.begin, other.stamp);
}

Skyline::Skyline(const Part& part) : items_(part.items), ground_bytes_(part.ground_bytes) {
  const size_t sections = ground_bytes_.size();
  int64_t padding_bytes = 0;
  std::vector<int32_t> begins;
  for (const Item& item : items_) {
    begins.push_back(item.begin);
    padding_bytes = std::max(padding_bytes, item.padding_bytes);
  }
  first_item_ = first_at(begins, sections);
  by_end_.resize(items_.size());
  std::iota(by_end_.begin(), by_end_.end(), 0);
  std::ranges::stable_sort(by_end_, {},
                           [&](int32_t i) { return items_[static_cast<size_t>(i)].end; });
  std::vector<int32_t> ends;
  ends.reserve(by_end_.size());
  for (const int32_t i : by_end_) ends.push_back(items_[static_cast<size_t>(i)].end);
  first_end_ = first_at(ends, sections);
  full_bytes_ = live_bytes_of(part);
  for (size_t s = 0; s < sections; ++s) {
    full_bytes_[s] += ground_bytes_[s] - padding_bytes;
    fullest_bytes_ = std::max(fullest_bytes_, full_bytes_[s]);
  }
  offset_bytes_.assign(items_.size(), 0);
  is_placed_.assign(items_.size(), 0);
  pieces_.resize(sections + 1);
  while (leaf_count_ < static_cast<int32_t>(items_.size())) leaf_count_ *= 2;
  nodes_.resize(2 * static_cast<size_t>(leaf_count_));
}

// 1. Also makes the range tree over the items, and the slack.
void Skyline::start(std::span<const double> score) {
  const auto leaves = static_cast<size_t>(leaf_count_);
  std::fill(nodes_.begin(), nodes_.end(), Node{});
  for (size_t i = 0; i < items_.size(); ++i) {
    const int32_t end = items_[i].end;
    nodes_[leaves + i] = {.least_end = end, .most_end = end, .best_score = score[i]};
  }
  for (size_t i = leaves; i-- > 1;) nodes_[i] = join(nodes_[2 * i], nodes_[2 * i + 1]);
  std::fill(is_placed_.begin(), is_placed_.end(), 0);
  start_slack();
  valleys_ = {};
  last_stamp_ = 0;
  std::fill(pieces_.begin(), pieces_.end(), Piece{});
  const auto count = static_cast<int32_t>(ground_bytes_.size());
  for (int32_t begin = 0, before = -1; begin < count;) {
    const int64_t height_bytes = ground_bytes_[static_cast<size_t>(begin)];
    int32_t end = begin + 1;
    while (end < count && ground_bytes_[static_cast<size_t>(end)] == height_bytes) ++end;
    link_piece(begin, end, before, height_bytes);
    before = begin;
    begin = end;
  }
  for (int32_t begin = 0; begin < count; begin = pieces_[static_cast<size_t>(begin)].end) {
    note_valley(begin);
  }
}

// Without a limit and a guide slack is not used.
void Skyline::start_slack() {
  aim_bytes_ = fullest_bytes_;
  has_slack_ = limit_bytes_ != kAborted || guide_.looks_at_sides || guide_.looks_inside;
  if (!has_slack_) return;
  std::vector<int64_t> slack_bytes;
  slack_bytes.reserve(full_bytes_.size());
  for (const int64_t bytes : full_bytes_) slack_bytes.push_back(aim_bytes_ - bytes);
  slack_.assign(slack_bytes);
}

void Skyline::link_piece(int32_t begin, int32_t end, int32_t before, int64_t height_bytes) {
  pieces_[static_cast<size_t>(begin)] = {
      .end = end, .before = before, .height_bytes = height_bytes, .exists = true};
  Piece& after = pieces_[static_cast<size_t>(end)];
  if (after.exists) after.before = begin;
}

int64_t Skyline::left_side(const Piece& piece) const {
  if (piece.before < 0) return kAborted;
  return pieces_[static_cast<size_t>(piece.before)].height_bytes;
}

int64_t Skyline::right_side(const Piece& piece) const {
  const Piece& after = pieces_[static_cast<size_t>(piece.end)];
  return after.exists ? after.height_bytes : kAborted;
}

// Call this for each piece that is new or has a new neighbour. Older entries become invalid.
void Skyline::note_valley(int32_t begin) {
  Piece& piece = pieces_[static_cast<size_t>(begin)];
  piece.stamp = ++last_stamp_;
  if (std::min(left_side(piece), right_side(piece)) < piece.height_bytes) return;
  int32_t choices = kManyChoices;
  if (guide_.looks_at_sides) {
    const int64_t tight = tight_bytes(piece);
    if (slack_.at(begin) < tight) {
      const int32_t count = count_at_begin(begin, piece.end);
      if (count > 0) choices = std::min(choices, count);
    }
    if (slack_.at(piece.end - 1) < tight) {
      const int32_t count = count_at_end(piece.end, begin);
      if (count > 0) choices = std::min(choices, count);
    }
  }
  valleys_.push({.choices = choices,
                 .height_bytes = piece.height_bytes,
                 .begin = begin,
                 .stamp = piece.stamp});
}

// A section with less slack than this should get an item instead of being raised.
int64_t Skyline::tight_bytes(const Piece& piece) const {
  const int64_t side = std::min(left_side(piece), right_side(piece));
  return side == kAborted ? guide_.tight_bytes
                          : std::min(guide_.tight_bytes, side - piece.height_bytes);
}

// 4. Joins the piece with its lower neighbour, or with both if they are equally high. False if a
// section is now sure to reach the limit.
bool Skyline::raise_piece(int32_t begin) {
  const Piece piece = pieces_[static_cast<size_t>(begin)];
  const int64_t left = left_side(piece);
  const int64_t right = right_side(piece);
  if (has_slack_) {
    slack_.add(begin, piece.end, piece.height_bytes - std::min(left, right));
    if (const int64_t missing = -slack_.least(); missing > 0) {
      aim_bytes_ += missing;
      slack_.add_to_all(missing);
      if (aim_bytes_ >= limit_bytes_) return false;
    }
  }
  int32_t new_begin = begin;
  int32_t new_end = piece.end;
  int32_t before = piece.before;
  if (left <= right) {
    new_begin = piece.before;
    before = pieces_[static_cast<size_t>(new_begin)].before;
  }
  if (right <= left) {
    Piece& after = pieces_[static_cast<size_t>(piece.end)];
    new_end = after.end;
    after.exists = false;
  }
  pieces_[static_cast<size_t>(begin)].exists = false;
  link_piece(new_begin, new_end, before, std::min(left, right));
  note_valley(new_begin);
  return true;
}

// 5. Cuts the piece around the item, or joins neighbours that are now equally high.
void Skyline::place(int32_t item, int32_t piece_begin) {
  const Item& placed = items_[static_cast<size_t>(item)];
  const Piece piece = pieces_[static_cast<size_t>(piece_begin)];
  const int64_t top_bytes = piece.height_bytes + placed.size_bytes;
  offset_bytes_[static_cast<size_t>(item)] = piece.height_bytes;
  is_placed_[static_cast<size_t>(item)] = 1;
  remove_item(item);
  pieces_[static_cast<size_t>(piece_begin)].exists = false;
  int32_t before = piece.before;
  int32_t begin = placed.begin;
  int32_t end = placed.end;
  if (piece_begin < begin) {
    link_piece(piece_begin, begin, before, piece.height_bytes);
    before = piece_begin;
  } else if (before >= 0 && pieces_[static_cast<size_t>(before)].height_bytes == top_bytes) {
    begin = before;  // Equally high as the neighbour: joins both to one piece.
    before = pieces_[static_cast<size_t>(begin)].before;
  }
  if (end < piece.end) {
    link_piece(end, piece.end, begin, piece.height_bytes);
  } else if (Piece& after = pieces_[static_cast<size_t>(end)];
             after.exists && after.height_bytes == top_bytes) {
    after.exists = false;
    end = after.end;
  }
  link_piece(begin, end, before, top_bytes);
  note_valley(begin);
  if (before >= 0) note_valley(before);
  if (pieces_[static_cast<size_t>(end)].exists) note_valley(end);
}

Skyline::Node Skyline::join(const Node& left, const Node& right) {
  return {.least_end = std::min(left.least_end, right.least_end),
          .most_end = std::max(left.most_end, right.most_end),
          .best_score = std::max(left.best_score, right.best_score)};
}

void Skyline::remove_item(int32_t item) {
  size_t node = static_cast<size_t>(leaf_count_) + static_cast<size_t>(item);
  nodes_[node] = {};
  for (node /= 2; node >= 1; node /= 2) nodes_[node] = join(nodes_[2 * node], nodes_[2 * node + 1]);
}

// Visits the child with the better score first; skips nodes that cannot fit or cannot win.
void Skyline::search(int32_t node, int32_t node_begin, int32_t node_end) {
  if (node_end <= query_.begin || query_.end <= node_begin) return;
  const Node& here = nodes_[static_cast<size_t>(node)];
  if (here.least_end > query_.latest_end || here.most_end < query_.earliest_end) return;
  if (query_.found >= 0 && here.best_score <= query_.score) {
    const bool is_earlier_tie = here.best_score == query_.score && node_begin < query_.found;
    if (!is_earlier_tie) return;
  }
  if (node >= leaf_count_) {
    query_.found = node_begin;
    query_.score = here.best_score;
    return;
  }
  const int32_t middle = (node_begin + node_end) / 2;
  const size_t left = 2 * static_cast<size_t>(node);
  if (nodes_[left].best_score >= nodes_[left + 1].best_score) {
    search(2 * node, node_begin, middle);
    search(2 * node + 1, middle, node_end);
  } else {
    search(2 * node + 1, middle, node_end);
    search(2 * node, node_begin, middle);
  }
}

int32_t Skyline::best_item(int32_t begin, int32_t begin_end, int32_t earliest_end,
                           int32_t latest_end) {
  query_ = {.begin = first_item_[static_cast<size_t>(begin)],
            .end = first_item_[static_cast<size_t>(begin_end)],
            .earliest_end = earliest_end,
            .latest_end = latest_end};
  if (query_.begin < query_.end) search(1, 0, leaf_count_);
  return query_.found;
}

int32_t Skyline::count_at_begin(int32_t begin, int32_t latest_end) const {
  const auto first = static_cast<size_t>(first_item_[static_cast<size_t>(begin)]);
  const auto last = static_cast<size_t>(first_item_[static_cast<size_t>(begin) + 1]);
  int32_t count = 0;
  for (size_t i = first; i < last && count < kManyChoices; ++i) {
    if (is_placed_[i] == 0 && items_[i].end <= latest_end) ++count;
  }
  return count;
}

int32_t Skyline::count_at_end(int32_t end, int32_t earliest_begin) const {
  const auto first = static_cast<size_t>(first_end_[static_cast<size_t>(end)]);
  const auto last = static_cast<size_t>(first_end_[static_cast<size_t>(end) + 1]);
  int32_t count = 0;
  for (size_t k = first; k < last && count < kManyChoices; ++k) {
    const auto i = static_cast<size_t>(by_end_[k]);
    if (is_placed_[i] == 0 && items_[i].begin >= earliest_begin) ++count;
  }
  return count;
}

// 3. The item to place in this valley; -1 if none fits.
int32_t Skyline::choose(int32_t begin) {
  const Piece& piece = pieces_[static_cast<size_t>(begin)];
  const int32_t end = piece.end;
  const int64_t tight = tight_bytes(piece);
  if (guide_.looks_at_sides) {
    const int32_t left = slack_.at(begin) < tight ? count_at_begin(begin, end) : 0;
    const int32_t right = slack_.at(end - 1) < tight ? count_at_end(end, begin) : 0;
    if (left > 0 && (right == 0 || left <= right)) return best_item(begin, begin + 1, 0, end);
    if (right > 0) return best_item(begin, end, end, end);
  }
  if (guide_.looks_inside) {
    const int32_t scarcest = slack_.least_below(begin, end, tight);
    const int32_t crossing = scarcest < 0 ? -1 : best_item(begin, scarcest + 1, scarcest + 1, end);
    if (crossing >= 0) return crossing;
  }
  return best_item(begin, end, 0, end);
}

int64_t Skyline::fill(std::span<const double> score, int64_t limit_bytes, const Guide& guide) {
  guide_ = guide;
  limit_bytes_ = limit_bytes;
  start(score);  // 1.
  int64_t height_bytes = 0;
  for (size_t left = items_.size(); left > 0;) {
    const Valley valley = valleys_.top();  // 2.
    valleys_.pop();
    const Piece& piece = pieces_[static_cast<size_t>(valley.begin)];
    if (!piece.exists || piece.stamp != valley.stamp) continue;
    const int32_t item = choose(valley.begin);  // 3.
    if (item < 0) {                             // 4.
      if (!raise_piece(valley.begin)) return kAborted;
      continue;
    }
    const Item& next = items_[static_cast<size_t>(item)];
    const int64_t top_bytes = piece.height_bytes + next.size_bytes - next.padding_bytes;
    if (top_bytes >= limit_bytes) return kAborted;
    height_bytes = std::max(height_bytes, top_bytes);
    place(item, valley.begin);  // 5.
    --left;
  }
  return height_bytes;
}

}  // namespace fitstep

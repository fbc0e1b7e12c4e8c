// PartSearch: lays out one part of time (sections.h). More work gives a lower layout.
//
// If all items have one size, interval colouring reaches the peak. Otherwise the search fills many
// skylines with different scores and varies the best. In a small part the exact search follows, if
// wanted: first at the goal, then half-way between the bound and the height known so far.
//
//   height known   ----------------    falls with every skyline and every capacity that works
//   tried                 ....
//   bound          ----------------    rises with every capacity that is proven too small
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fitstep/base/deadline.h"
#include "fitstep/base/random.h"
#include "fitstep/planner/layout/exact_layout.h"
#include "fitstep/planner/layout/sections.h"
#include "fitstep/planner/layout/skyline.h"

namespace fitstep {

class PartSearch {
 public:
  // How much to do: number of skylines, and nodes of the exact search.
  struct Work {
    int64_t passes = 0;
    int64_t exact_nodes = 0;
  };

  PartSearch(Part part, uint64_t seed);

  // Works until the height is at most the goal, the work is spent, or the deadline has passed;
  // the first call makes at least one layout.
  void improve(int64_t goal_bytes, const Work& work, const Deadline& deadline);

  // Whether more work could bring the height closer to the goal.
  bool can_improve(int64_t goal_bytes, const Work& work) const;

  const std::vector<Item>& items() const { return part_.items; }
  const std::vector<int64_t>& offset_bytes() const { return offset_bytes_; }
  int64_t height_bytes() const { return height_bytes_; }
  int64_t bound_bytes() const { return bound_bytes_; }  // No layout is lower: proven.

 private:
  static constexpr size_t kFeatureCount = 4;
  using Weights = std::array<double, kFeatureCount>;
  // How one pass chooses items: by the guide first, then by score = weights x features + noise.
  struct Recipe {
    Weights weights{};
    std::vector<double> noise;
    Skyline::Guide guide;
  };

  void learn_features();
  bool color_equal_sizes();
  Recipe next_recipe();
  Recipe guided_recipe(size_t number) const;
  Recipe random_recipe();
  Recipe varied_recipe();
  Skyline::Guide make_guide(size_t sections_seen, double tight_share) const;
  void fill_once();
  bool is_for_exact_search() const;
  int64_t next_height(int64_t bytes) const;
  void search_exactly(int64_t goal_bytes, int64_t node_limit, const Deadline& deadline);
  bool try_capacity(int64_t capacity_bytes, int64_t node_limit, const Deadline& deadline);
  void keep(const std::vector<int64_t>& offset_bytes);

  Part part_;
  Skyline skyline_;
  Random random_;
  std::vector<Weights> features_;  // Of each item, each scaled to 0 .. 1.
  std::vector<double> score_;
  Recipe best_;
  size_t pass_count_ = 0;
  std::unique_ptr<ExactLayout> exact_;
  int64_t unit_bytes_ = 0;     // Every height is a multiple of it.
  int64_t fullest_bytes_ = 0;  // No layout of the aligned sizes is lower.
  int64_t bound_bytes_ = 0;
  int64_t height_bytes_ = Skyline::kAborted;
  std::vector<int64_t> offset_bytes_;
};

}  // namespace fitstep

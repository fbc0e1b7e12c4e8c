// A chain of four layers in units of one byte and one second, with one cut inside:
//
//   tick       0 load 1 f1  2 f2 | 3 f3  4 f4 | 5 loss 6 b4  7 b3 | 8 b2  9 b1
//   segment    0                 | 1          | backward 1        | backward 0
//   kept       1      2     3      4     5      6      7     6      5     4        bytes live
//
// b_i reads a_i, a_i-1 and g_i and makes g_i-1, so no b needs less than 4 bytes. a0 cannot be
// recomputed; a2 crosses the cut. At a price of 1 s per byte a1 and a3 are dropped: a2 and a4 would
// cost their own op and the one before, 2 s.
#include "fitstep/planner/recompute/segments.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/planner/recompute/phase.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

using Strings = std::vector<std::string>;

// A program in its given order, its bytes with everything kept, and a table of its segments.
class Table {
 public:
  Table(Program program, const std::optional<Phase>& phase = {})
      : program_(std::move(program)),
        values_(program_, given_order(program_)),
        table_(values_, phase ? *phase : find_phases(values_).at(0), kept_bytes(values_)) {}

  const SegmentTable& operator*() const { return table_; }

  // One per segment: its cuts, and what its level drops of all values. Empty if none are found.
  Strings chosen(int64_t target_bytes) const {
    Strings all;
    const std::optional<std::vector<Segment>> segments = table_.choose(target_bytes);
    if (!segments) return all;
    for (const Segment& it : *segments) {
      all.push_back(fmt::format("{}-{}:{}", it.first_cut, it.last_cut, dropped(it.level)));
    }
    return all;
  }

  std::string dropped(int32_t level) const {
    std::string names;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (table_.drops()[static_cast<size_t>(level)].is_dropped[i] == 0) continue;
      names += " " + values_.storage(values_[ValueId(i)].storage).name;
    }
    return names;
  }

  static std::vector<int64_t> kept_bytes(const Values& values) {
    return make_space(values, make_schedule(values, keep_all(values)).value()).live_bytes;
  }

 private:
  Program program_;
  Values values_;
  SegmentTable table_;
};

Table four_layers() {
  return {chain_program({.layers = 4, .unit_bytes = 1}),
          Phase{.begin = 0, .turn = 4, .end = 10, .cuts = {0, 3, 5}, .backward = {10, 8, 5}}};
}

TEST(SegmentTable, HasALevelForEachPriceThatDropsMore) {
  const Table table = four_layers();
  ASSERT_GE((*table).last_level(), 3);
  EXPECT_EQ(table.dropped(0), "");
  EXPECT_EQ(table.dropped(1), " a1 a3");
  EXPECT_EQ(table.dropped(2), " a1 a2 a4");  // At 2 s: a3 would cost 3, a4 costs 1 behind it.
  EXPECT_EQ(table.dropped((*table).last_level()), " a1 a2 a3 a4");
}

// The peak is 7, with both activations of layer 4 and both gradients.
TEST(SegmentTable, KeepsEverythingWhereThatFits) {
  EXPECT_EQ(four_layers().chosen(7), (Strings{"0-2:"}));
  EXPECT_EQ(four_layers().chosen(100), (Strings{"0-2:"}));
}

// One byte too much. Segment 0 drops a1 for 1 s. With a0 and a2 kept, segment 1 has 4 bytes left,
// and its backward part needs 7 less the three bytes of segment 0.
TEST(SegmentTable, DropsTheCheapestByte) {
  EXPECT_EQ(four_layers().chosen(6), (Strings{"0-1: a1 a3", "1-2:"}));
}

// Beside a cut that is kept, a0 and a2, segment 1 needs 4 bytes, so the cut cannot be kept in 5. As
// one segment 7 bytes less a1 and a3, for 2 s; in 4 bytes less a1, a2 and a4, for 1 + 2 + 1 s.
TEST(SegmentTable, DropsMoreInOneSegmentWhereNoCutFits) {
  EXPECT_EQ(four_layers().chosen(5), (Strings{"0-2: a1 a3"}));
  EXPECT_EQ(four_layers().chosen(4), (Strings{"0-2: a1 a2 a4"}));
}

// b4 alone needs 4 bytes.
TEST(SegmentTable, HasNoAnswerBelowTheOpsThemselves) {
  const Table table = four_layers();
  EXPECT_FALSE((*table).choose(3).has_value());
  EXPECT_FALSE((*table).choose(0).has_value());
  EXPECT_EQ((*table).least_target_bytes(), 4);
}

// a1 has 5 bytes: the cut behind f1 has a0 and a1, 6 bytes; those behind f2 and f3 have a0 and one
// more, 2 bytes.
TEST(SegmentTable, CallsTheNarrowerHalfOfTheCutsNarrow) {
  Program program = chain_program({.layers = 4, .unit_bytes = 1});
  for (Storage& storage : program.storages) {
    if (storage.name == "a1") storage.size_bytes = 5;
  }
  const Table table(
      program,
      Phase{
          .begin = 0, .turn = 4, .end = 10, .cuts = {0, 2, 3, 4, 5}, .backward = {10, 9, 8, 7, 5}});
  EXPECT_EQ((*table).narrow_cuts(), (std::vector<int32_t>{2, 3}));
  EXPECT_TRUE((*Table(program,
                      Phase{.begin = 0, .turn = 4, .end = 10, .cuts = {0, 5}, .backward = {10, 5}}))
                  .narrow_cuts()
                  .empty());
}

// Segments follow each other from the first cut to the last, and so do the parts of a segment that
// runs again more than once.
void expect_row(const std::vector<Segment>& segments, int32_t first_cut, int32_t last_cut) {
  int32_t cut = first_cut;
  for (const Segment& segment : segments) {
    EXPECT_EQ(segment.first_cut, cut);
    EXPECT_LT(segment.first_cut, segment.last_cut);
    cut = segment.last_cut;
    if (!segment.parts.empty()) expect_row(segment.parts, segment.first_cut, segment.last_cut);
  }
  EXPECT_EQ(cut, last_cut);
}

TEST(SegmentTable, LetsSegmentsRunAgainMoreOftenAsTheTargetFalls) {
  const Table table(chain_program({.layers = 40, .unit_bytes = 1}));
  const int64_t least_bytes = (*table).least_target_bytes();
  bool has_parts = false;
  bool has_parts_of_parts = false;
  for (int64_t target = 43; target >= least_bytes; --target) {
    const std::optional<std::vector<Segment>> segments = (*table).choose(target);
    ASSERT_TRUE(segments.has_value()) << target;
    expect_row(*segments, 0, (*table).phase().segment_count());
    for (const Segment& segment : *segments) {
      has_parts |= !segment.parts.empty();
      for (const Segment& part : segment.parts) has_parts_of_parts |= !part.parts.empty();
    }
    EXPECT_FALSE(has_parts && target == 43) << "with all kept nothing runs again";
  }
  EXPECT_TRUE(has_parts);
  EXPECT_TRUE(has_parts_of_parts);
  EXPECT_FALSE((*table).choose(least_bytes - 1).has_value());
}

}  // namespace
}  // namespace fitstep

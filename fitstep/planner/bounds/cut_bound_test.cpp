// Three ops of 1 s. a idles while `wide` runs, so ten bytes hold everything:
//
//   bytes
//    10 |      |wide|
//     4 +-- a -------------+
//         a    wide   end
//
// With room for 8 two bytes of a are away while `wide` runs, or half of a is recomputed. A copy
// takes 1 s per byte each way.
#include "fitstep/planner/bounds/cut_bound.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds/away.h"
#include "fitstep/planner/bounds/needs.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/one_span.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

Away away_on_host(int64_t host_bytes = std::numeric_limits<int64_t>::max()) {
  const CopyCost cost{.evict_ps_per_byte = kSecond, .prefetch_ps_per_byte = kSecond};
  return {.is_possible = true, .host = cost, .host_bytes = host_bytes};
}

// A program in its given order and its bounds.
class Bounds {
 public:
  explicit Bounds(std::string_view text, bool may_recompute = true,
                  std::span<const char> is_mobile = {})
      : program_(program_of(text)),
        values_(program_, given_order(program_)),
        needs_(values_, unit_machine(), is_mobile),
        cuts_(needs_, may_recompute) {}

  double seconds(int64_t room_bytes, const Away& away = {}) const {
    return static_cast<double>(cuts_.at(room_bytes, away).ps) / kSecond;
  }
  Tick tick(int64_t room_bytes, const Away& away = {}) const {
    return cuts_.at(room_bytes, away).tick;
  }

 private:
  Program program_;
  Values values_;
  Needs needs_;
  CutBounds cuts_;
};

constexpr double kRounding = 1e-9;

TEST(CutBounds, AreTheOpsAloneWhereAllFits) {
  const Bounds bounds(kOneSpan);
  EXPECT_EQ(bounds.seconds(10), 3);
  EXPECT_EQ(bounds.tick(10), -1) << "no cut adds time";
  EXPECT_EQ(bounds.seconds(10, away_on_host()), 3);
  EXPECT_GT(bounds.seconds(9), 3);
}

TEST(CutBounds, ChargeRecomputeForTheShareThatDoesNotFit) {
  const Bounds bounds(kOneSpan);
  EXPECT_NEAR(bounds.seconds(8), 3 + 2.0 / 4, kRounding);
  EXPECT_NEAR(bounds.seconds(6), 3 + 4.0 / 4, kRounding);
  EXPECT_EQ(bounds.tick(8), 1);
}

// Below the working set of `wide` no plan exists. What holds at 6 bytes holds there too.
TEST(CutBounds, StayTheSameBelowTheLargestWorkingSet) {
  const Bounds bounds(kOneSpan);
  EXPECT_EQ(bounds.seconds(5), bounds.seconds(6));
  EXPECT_EQ(bounds.seconds(0), bounds.seconds(6));
}

// a has to be held, and has nowhere to go: no plan with less than 10 bytes.
TEST(CutBounds, AddNothingWherePlansMayDoNothing) {
  EXPECT_EQ(Bounds(kOneSpan, /*may_recompute=*/false).seconds(8), 3);
}

//   ops      |a|    |wide|    |end|       max(1, 2) + 1 + 2 + 1: two bytes leave beside a, and come
//   copies   |-2-|        |-2-|           back before `end`
TEST(CutBounds, CountCopiesOnBothSides) {
  const Bounds bounds(kOneSpan, /*may_recompute=*/false);
  EXPECT_NEAR(bounds.seconds(8, away_on_host()), 2 + 1 + 2 + 1, kRounding);
  EXPECT_NEAR(bounds.seconds(6, away_on_host()), 4 + 1 + 4 + 1, kRounding);
}

// y bytes are away, for 2 - y recompute is paid: max(1, y) + 1 + max((2 - y) / 4, y) + 1 is least
// where (2 - y) / 4 = y, at 0.4.
TEST(CutBounds, SplitBytesBetweenCopiesAndRecompute) {
  EXPECT_NEAR(Bounds(kOneSpan).seconds(8, away_on_host()), 1 + 1 + 0.4 + 1, kRounding);
}

// The host takes one byte, so with offload alone no plan has less than 9 bytes: one is away. If it
// takes none, two bytes are recomputed as without a host.
TEST(CutBounds, SendNoMoreAwayThanTheHostHolds) {
  const Bounds offload(kOneSpan, /*may_recompute=*/false);
  EXPECT_NEAR(offload.seconds(8, away_on_host(1)), 1 + 1 + 1 + 1, kRounding);
  EXPECT_NEAR(Bounds(kOneSpan).seconds(
                  8, {.is_possible = true, .host = away_on_host().host, .host_bytes = 0}),
              3.5, kRounding);
}

// Two bytes, one on the host and one on the disk: both cross the first link, one also the second,
// with 3 s per byte.
TEST(CutBounds, PayTheDiskForWhatTheHostCannotHold) {
  Away away = away_on_host(1);
  away.has_disk = true;
  away.disk = {.evict_ps_per_byte = 3 * kSecond, .prefetch_ps_per_byte = 3 * kSecond};
  const Bounds bounds(kOneSpan, /*may_recompute=*/false);
  EXPECT_NEAR(bounds.seconds(8, away), 3 + 1 + 3 + 1, kRounding);
}

// Beside the 2 s of each copy ops run at half of their speed. a takes 4 s: 2 s of the copy hide
// 1 s of it, so 4 + 2 / 2 before the cut.
TEST(CutBounds, SlowOpsBesideCopies) {
  std::string text(kOneSpan);
  text.replace(text.find("time 1"), 6, "time 4");
  Away away = away_on_host();
  const Bounds bounds(text, /*may_recompute=*/false);
  EXPECT_NEAR(bounds.seconds(8, away), 4 + 1 + 2 + 1, kRounding);
  away.slowing = 0.5;
  EXPECT_NEAR(bounds.seconds(8, away), 5 + 1 + 2 + 1, kRounding);
}

// In its slow form `wide` needs 4 bytes less: with room for 10 it takes 1.25 s and a stays. With
// room for 8 the fast form costs 0.5 s for a, the slow one 0.25.
TEST(CutBounds, TakeTheFormThatCostsLeast) {
  const std::string text = R"(fitstep program 1
storage 0 "a" 4 temporary
storage 1 "wide" 2 temporary
storage 2 "end" 1 output
op 0 "a" matmul
form "default" time 1000000000000 pure writes 0.1
op 1 "wide" matmul
form "fast" time 1000000000000 writes 1.1 requests 4@0-1
form "slow" time 1250000000000 writes 1.1
op 2 "end" matmul
form "default" time 1000000000000 reads 0.1 writes 2.1
end calls 0 storages 3 ops 3
)";
  const Bounds bounds(text);
  EXPECT_EQ(bounds.seconds(10), 3);
  EXPECT_NEAR(bounds.seconds(9), 3 + 1.0 / 4, kRounding);  // Either way.
  EXPECT_NEAR(bounds.seconds(8), 1 + 1.25 + 1, kRounding);
}

// w is on the host since the step before, so it only comes back: 2 s for the bytes without room.
// Once f has changed it, they must leave as well.
TEST(CutBounds, CopyDownOnlyWhatTheHostDoesNotHave) {
  const std::string read_twice = R"(fitstep program 1
storage 0 "w" 4 parameter persistent start
storage 1 "wide" 6 temporary
storage 2 "end" 1 output
op 0 "f" matmul
form "default" time 1000000000000 reads 0.0
op 1 "wide" matmul
form "default" time 1000000000000 writes 1.1
op 2 "end" matmul
form "default" time 1000000000000 reads 0.0 writes 2.1
end calls 0 storages 3 ops 3
)";
  const std::vector<char> is_mobile = {1, 0, 0};
  EXPECT_NEAR(Bounds(read_twice, false, is_mobile).seconds(8, away_on_host()), 1 + 1 + 2 + 1,
              kRounding);
  std::string written = read_twice;
  written.replace(written.find("reads 0.0\n"), 10, "reads 0.0 writes 0.1\n");
  written.replace(written.find("reads 0.0 writes 2.1"), 20, "reads 0.1 writes 2.1");
  EXPECT_NEAR(Bounds(written, false, is_mobile).seconds(8, away_on_host()), 2 + 1 + 2 + 1,
              kRounding);
}

// The same three ops once more, with storages of their own.
TEST(CutBounds, AddUpOverSectionsInARow) {
  std::string text(kOneSpan.substr(0, kOneSpan.find("op 0")));
  text += R"(storage 3 "b" 4 temporary
storage 4 "wider" 7 temporary
storage 5 "last" 1 output
)";
  text +=
      kOneSpan.substr(kOneSpan.find("op 0"), kOneSpan.find("end calls") - kOneSpan.find("op 0"));
  text += R"(op 3 "b" matmul
form "default" time 1000000000000 pure writes 3.1
op 4 "wider" matmul
form "default" time 1000000000000 writes 4.1
op 5 "last" matmul
form "default" time 1000000000000 reads 3.1 writes 5.1
end calls 0 storages 6 ops 6
)";
  const Bounds bounds(text);
  EXPECT_NEAR(bounds.seconds(8), 6 + 2.0 / 4 + 3.0 / 4, kRounding);
  EXPECT_EQ(bounds.tick(8), 4) << "where most is added";
}

}  // namespace
}  // namespace fitstep

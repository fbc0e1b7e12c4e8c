#include "fitstep/planner/schedule/scheduler.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/planner/schedule/selection.h"
#include "fitstep/planner/schedule/space.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

// Drops the named storages' values at every gap of two ticks or more.
Selection drop(const Values& values, const std::vector<std::string_view>& names) {
  Selection selection = keep_all(values);
  selection.window = 1;
  std::vector<int32_t> parts;
  parts.reserve(static_cast<size_t>(values.tick_count()));
  for (Tick tick = 0; tick < values.tick_count(); ++tick) {
    parts.push_back(static_cast<int32_t>(tick));
  }
  selection.scopes.push_back(parts);
  for (size_t i = 0; i < values.size(); ++i) {
    for (const std::string_view name : names) {
      if (values.storage(values[ValueId(i)].storage).name == name) selection.scope_of[i] = 0;
    }
  }
  return selection;
}

// "f0 f1 f2' ...": a quote for ops that run again, "save" for a generator's state.
std::string sequence(const Values& values, const std::optional<Schedule>& schedule) {
  if (!schedule) return "none";
  std::string text;
  for (const Instance& instance : schedule->instances) {
    if (!text.empty()) text += ' ';
    const bool is_save = instance.kind == Instance::Kind::SaveGenerator;
    text += is_save ? "save" : values.op_at(instance.tick).name;
    if (instance.kind == Instance::Kind::OpAgain) text += '\'';
  }
  return text;
}

std::string sequence_of(const Program& program, const std::vector<std::string_view>& dropped) {
  const Values values(program, given_order(program));
  return sequence(values, make_schedule(values, drop(values, dropped)));
}

constexpr std::string_view kChain = R"(fitstep program 1
storage 0 "x" 1 input start
storage 1 "a0" 1 temporary
storage 2 "a1" 1 temporary
storage 3 "a2" 1 temporary
storage 4 "d1" 1 temporary
storage 5 "d0" 1 temporary
storage 6 "y" 1 output
op 0 "f0" matmul
form "default" pure reads 0.0 writes 1.1
op 1 "f1" matmul
form "default" pure reads 1.1 writes 2.1
op 2 "f2" matmul
form "default" pure reads 2.1 writes 3.1
op 3 "b2" matmul
form "default" pure reads 3.1 writes 4.1
op 4 "b1" matmul
form "default" pure reads 4.1 2.1 writes 5.1
op 5 "b0" matmul
form "default" reads 5.1 1.1 writes 6.1
end calls 0 storages 7 ops 6
)";

TEST(MakeSchedule, KeepsTheProgramWhereNothingIsDropped) {
  EXPECT_EQ(sequence_of(program_of(kChain), {}), "f0 f1 f2 b2 b1 b0");
}

TEST(MakeSchedule, RecomputesAValueBeforeItsUse) {
  EXPECT_EQ(sequence_of(program_of(kChain), {"a1"}), "f0 f1 f2 b2 f1' b1 b0");
}

// a1 needs a0, which is dropped too. The a0 that is recomputed for a1 is still there for b0.
TEST(MakeSchedule, RecomputesInputsOfWhatItRecomputes) {
  EXPECT_EQ(sequence_of(program_of(kChain), {"a0", "a1"}), "f0 f1 f2 b2 f0' f1' b1 b0");
}

TEST(MakeSchedule, EndsTheStayAtTheLastUseBeforeTheGap) {
  const Program program = program_of(kChain);
  const Values values(program, given_order(program));
  const auto schedule = make_schedule(values, drop(values, {"a1"}));
  ASSERT_TRUE(schedule.has_value());
  // Instances f0 f1 f2 b2 f1' b1 b0: a1 from 1 to 2 and from 4 to 5, a0 (needed by f1') to 6.
  std::vector<std::pair<int32_t, int32_t>> stays;
  for (const Stay& stay : schedule->stays) {
    if (values.storage(stay.storage).name == "a1") stays.emplace_back(stay.first, stay.last);
  }
  EXPECT_EQ(stays, (std::vector<std::pair<int32_t, int32_t>>{{1, 2}, {4, 5}}));
  EXPECT_EQ(schedule->recompute_count, 1);
}

// The relu works in place, so version 2 of t is recomputed from version 1, in the same memory.
constexpr std::string_view kInPlace = R"(fitstep program 1
storage 0 "x" 1 input start
storage 1 "t" 1 temporary
storage 2 "u" 1 temporary
storage 3 "y" 1 output
op 0 "conv" convolution
form "default" pure reads 0.0 writes 1.1
op 1 "relu_" activation
form "default" pure reads 1.1 writes 1.2
op 2 "next" matmul
form "default" pure reads 1.2 writes 2.1
op 3 "middle" matmul
form "default" reads 2.1 writes 3.1
op 4 "again" matmul
form "default" reads 1.2 3.1 writes 3.2
end calls 0 storages 4 ops 5
)";

TEST(MakeSchedule, RunsAChainInPlaceAgainInOneMemory) {
  const Program program = program_of(kInPlace);
  const Values values(program, given_order(program));
  const auto schedule = make_schedule(values, drop(values, {"t"}));
  EXPECT_EQ(sequence(values, schedule), "conv relu_ next middle conv' relu_' again");
  ASSERT_TRUE(schedule.has_value());
  const Instance& conv = schedule->instances[4];
  const Instance& relu = schedule->instances[5];
  const auto written = [&](const Instance& by) { return schedule->writes(by).front(); };
  EXPECT_EQ(written(conv), schedule->reads(relu).front());
  EXPECT_EQ(schedule->reads(relu).front(), written(relu));
  EXPECT_NE(written(conv), written(schedule->instances[0]));
}

// The draw runs again from a copy of the state that it had.
TEST(MakeSchedule, SavesTheGeneratorInFrontOfTheDraw) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "rng" 16 generator start
storage 1 "x" 1 input start
storage 2 "d" 1 temporary
storage 3 "e" 1 temporary
storage 4 "y" 1 output
op 0 "draw" random random
form "default" reads 1.0 0.0 writes 2.1 0.1
form "restoring" restores reads 1.0 0.0 writes 2.1
op 1 "f" matmul
form "default" reads 2.1 writes 3.1
op 2 "g" matmul
form "default" reads 3.1 writes 4.1
op 3 "late" matmul
form "default" reads 2.1 4.1 writes 4.2
end calls 0 storages 5 ops 4
)");
  EXPECT_EQ(sequence_of(program, {}), "draw f g late");
  EXPECT_EQ(sequence_of(program, {"d"}), "save draw f g draw' late");
}

// a reads the weight before the update. After the update a cannot be recomputed, so a is kept.
TEST(MakeSchedule, KeepsWhatReadsAWeightThatIsUpdated) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "x" 1 input start
storage 1 "w" 1 parameter persistent start
storage 2 "a" 1 temporary
storage 3 "y" 1 output
storage 4 "z" 1 output
op 0 "a" matmul
form "default" pure reads 0.0 1.0 writes 2.1
op 1 "y" matmul
form "default" reads 2.1 writes 3.1
op 2 "u" update
form "default" reads 1.0 writes 1.1
op 3 "z" matmul
form "default" reads 2.1 writes 4.1
end calls 0 storages 5 ops 4
)");
  EXPECT_EQ(sequence_of(program, {"a"}), "a y u z");
}

// The kernel frees scratch 1 before it requests scratch 2 and the output:
//
//   fine tick   0    1    2
//   x in t      |-4----------|
//   scratch 1   |-8--|
//   scratch 2        |-2-|
//   output           |-4-----|
TEST(MakeSpace, CountsScratchByItsPlaceInTheKernel) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "t" 4 temporary
storage 1 "y" 4 temporary
storage 2 "z" 4 output
op 0 "t" matmul
form "default" pure writes 0.1
op 1 "conv" convolution
form "default" pure reads 0.1 writes 1.1 requests 8@0-1 4@1-3=1 2@1-2
op 2 "z" matmul
form "default" reads 1.1 writes 2.1
end calls 0 storages 3 ops 3
)");
  const Values values(program, given_order(program));
  const auto schedule = make_schedule(values, keep_all(values));
  ASSERT_TRUE(schedule.has_value());
  const Space space = make_space(values, *schedule);
  EXPECT_EQ(space.live_bytes, (std::vector<int64_t>{4, 12, 4}));  // 4 + 8, not 4 + 8 + 4 + 2.
  EXPECT_EQ(space.peak_bytes, 12);
}

TEST(MakeSpace, TakesAllRequestsOfWorkerThreadsTogether) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "y" 4 temporary
op 0 "conv" convolution
form "default" writes 0.1 requests 8@0-1* 2@1-2 4@2-3=0
end calls 0 storages 1 ops 1
)");
  const Values values(program, given_order(program));
  const auto schedule = make_schedule(values, keep_all(values));
  ASSERT_TRUE(schedule.has_value());
  const Space space = make_space(values, *schedule);
  EXPECT_EQ(space.peak_bytes, 14);
}

// The sum takes the address of a, which ends at the sum; b is needed once more.
TEST(MakeSpace, GivesAnOutputTheAddressOfAnInputThatEnds) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "a" 4 temporary
storage 1 "b" 4 temporary
storage 2 "sum" 4 temporary
storage 3 "y" 4 output
op 0 "a" matmul
form "default" writes 0.1
op 1 "b" matmul
form "default" writes 1.1
op 2 "add" elementwise
form "default" pure reads 0.1 1.1 writes 2.1<0
op 3 "y" matmul
form "default" reads 1.1 2.1 writes 3.1
end calls 0 storages 4 ops 4
)");
  const Values values(program, given_order(program));
  const auto schedule = make_schedule(values, keep_all(values));
  ASSERT_TRUE(schedule.has_value());
  const Space space = make_space(values, *schedule);
  EXPECT_EQ(space.peak_bytes, 8);  // 12 if the sum had its own.
}

}  // namespace
}  // namespace fitstep

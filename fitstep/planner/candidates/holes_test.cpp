#include "fitstep/planner/candidates/holes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/candidates/candidate.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/programs/net_program.h"

namespace fitstep {
namespace {

constexpr int64_t kVeryLongPs = int64_t{1} << 60;

// Three instances of two ticks each. The second block ends 20 bytes above the limit; it is live
// from the last tick of the second instance on.
TEST(Holes, AreWhereBlocksLieAboveTheLimit) {
  Candidate candidate;
  candidate.schedule.instances.resize(3);
  candidate.space.first_tick = {0, 2, 4, 6};
  candidate.space.blocks = {{.size_bytes = 100, .live = {.begin = 0, .end = 6}},
                            {.size_bytes = 50, .live = {.begin = 3, .end = 5}}};
  candidate.layouts.device.offset_bytes = {0, 120};
  EXPECT_EQ(bytes_above(candidate, 150), (std::vector<int64_t>{0, 20, 20}));
  EXPECT_EQ(bytes_above(candidate, 170), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(bytes_above(candidate, 90), (std::vector<int64_t>{10, 80, 80}));
}

Task task_for(const Program& program, const Machine& machine, const Values& values) {
  return {.program = program,
          .machine = machine,
          .values = values,
          .request = {},
          .homes = make_homes(program, {}),
          .culprits = {}};
}

// A chain has no holes: the first layout is as high as the peak.
TEST(Holes, LeaveAChainAsItIs) {
  const Program program = chain_program({.layers = 6});
  Machine machine = unit_machine();
  const Values values(program, make_order(program));
  const Task task = task_for(program, machine, values);
  const auto found = place_around_holes(task, keep_all(values), 6 * 64, kVeryLongPs);
  ASSERT_TRUE(found.has_value());
  EXPECT_LE(found.value_or(Candidate{}).bytes, 6 * 64);
  EXPECT_FALSE(
      place_around_holes(task, keep_all(values), 6 * 64, found.value_or(Candidate{}).predicted_ps)
          .has_value());
}

// With many sizes a layout is higher than its peak. More is evicted until it fits.
TEST(Holes, MakeALayoutFitWhoseFirstTryIsTooHigh) {
  const Program program = resnet50_program({.batch = 8, .pixels = 64});
  Machine machine = unit_machine();
  for (Link& link : machine.links) {
    link.evict.alone_bytes_per_s = link.prefetch.alone_bytes_per_s = 4'000'000'000;
    link.evict.both_bytes_per_s = link.prefetch.both_bytes_per_s = 4'000'000'000;
  }
  const Values values(program, make_order(program));
  const Task task = task_for(program, machine, values);
  const auto kept = schedule_candidate(task, keep_all(values));
  ASSERT_TRUE(kept.has_value());
  for (const int64_t share : {90, 85}) {
    const int64_t capacity_bytes = kept->bytes * share / 100;
    auto first = offload_candidate(task, *kept, capacity_bytes, kVeryLongPs);
    ASSERT_TRUE(first.has_value());
    place_candidate(task, capacity_bytes, layout_passes(*kept), *first);
    EXPECT_GT(first->bytes, capacity_bytes);
    const auto found = place_around_holes(task, keep_all(values), capacity_bytes, kVeryLongPs);
    ASSERT_TRUE(found.has_value());
    EXPECT_LE(found->bytes, capacity_bytes);
    EXPECT_GE(found->predicted_ps, first->predicted_ps);
  }
}

}  // namespace
}  // namespace fitstep

// What a report counts, on the pyramid and the unit machine: every op a second, every copy of a
// byte a second.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/report/at_peak.h"
#include "fitstep/report/choices.h"
#include "fitstep/report/time_use.h"
#include "fitstep/report/trace.h"
#include "fitstep/simulate/simulator.h"
#include "tests/programs/pyramid.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"
#include "tests/support/offload_gaps.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

constexpr StorageId kA2 = StorageId(int32_t{3});

// keep_all(), but a0 is dropped after f1 and made again in front of b0:
//
//   compute   f0 f1 f2 b2 b1 f0' b0
Plan recompute_a0(const Program& program) {
  Plan plan = keep_all(program);
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  const ResidencyId dropped = lane[0].run.writes[0];
  const ResidencyId again(plan.residencies.size());
  Residency residency = plan.residencies[dropped.index()];
  residency.offset_bytes =
      (plan.certificate.height_bytes + kAlignmentBytes) / kAlignmentBytes * kAlignmentBytes;
  plan.residencies.push_back(residency);
  lane[1].releases.push_back(dropped);
  Action recompute = lane[0];
  recompute.run.writes[0] = again;
  recompute.releases.clear();
  std::ranges::replace(lane[5].run.reads, dropped, again);
  std::ranges::replace(lane[5].releases, dropped, again);
  lane.insert(lane.begin() + 5, recompute);
  certify(program, plan);
  expect_valid(program, plan);
  return plan;
}

StorageChoice choice_of(const std::vector<StorageChoice>& choices, StorageId storage) {
  for (const StorageChoice& choice : choices) {
    if (choice.storage == storage) return choice;
  }
  ADD_FAILURE() << "no choice for storage " << storage.value();
  return {};
}

std::vector<StorageChoice> choices_of(const Program& program, const Plan& plan) {
  return storage_choices(program, plan, simulate(program, plan, unit_machine()));
}

//   compute   f0 f1 f2 b2 b1 b0
//   a0        |==|           |       from the end of f1, 2, to the begin of b0, 5
//   a1           |==|     |          from 3 to 4
//   a2              |==|
TEST(Choices, KeepWhatLiesUnused) {
  const Program program = program_of(kPyramid);
  const std::vector<StorageChoice> choices = choices_of(program, keep_all(program));
  ASSERT_EQ(choices.size(), 3U);  // Not the gradients, which have no bytes, nor x and the loss.
  const StorageChoice a0 = choice_of(choices, kA0);
  EXPECT_EQ(a0.choice, Choice::Keep);
  EXPECT_EQ(program.ops[a0.maker.index()].name, "f0");
  EXPECT_EQ(a0.gap_ps, 3 * kSecond);
  EXPECT_EQ(program.ops[a0.before.index()].name, "f1");
  EXPECT_EQ(program.ops[a0.after.index()].name, "b0");
  EXPECT_EQ(a0.again_ps, kSecond);
  EXPECT_EQ(choice_of(choices, kA1).gap_ps, kSecond);
  EXPECT_EQ(choice_of(choices, kA2).choice, Choice::Brief);
  const auto totals = total_choices(choices);
  EXPECT_EQ(totals[static_cast<size_t>(Choice::Keep)].storages, 2);
  EXPECT_EQ(totals[static_cast<size_t>(Choice::Keep)].bytes, 2);
  EXPECT_EQ(totals[static_cast<size_t>(Choice::Brief)].bytes, 1);
}

TEST(Choices, CountRecomputes) {
  const Program program = program_of(kPyramid);
  const std::vector<StorageChoice> choices = choices_of(program, recompute_a0(program));
  const StorageChoice a0 = choice_of(choices, kA0);
  EXPECT_EQ(a0.choice, Choice::Recompute);
  EXPECT_EQ(a0.recomputes, 1);
  EXPECT_EQ(a0.recompute_ps, kSecond);
  EXPECT_EQ(a0.gap_ps, 4 * kSecond);  // One longer: f0 runs in it.
  EXPECT_EQ(choice_of(choices, kA1).choice, Choice::Keep);
}

TEST(Choices, CountCopies) {
  const Program program = program_of(kPyramid);
  const std::vector<StorageChoice> choices = choices_of(program, offload_gaps(program));
  for (const StorageId storage : {kA0, kA1}) {
    EXPECT_EQ(choice_of(choices, storage).choice, Choice::Offload);
    EXPECT_EQ(choice_of(choices, storage).copies, 2);
    EXPECT_EQ(choice_of(choices, storage).copied_bytes, 2);
  }
  EXPECT_EQ(choice_of(choices, kA2).choice, Choice::Brief);
}

TEST(Choices, KnowWhatCannotBeMadeAgain) {
  Program program = program_of(kPyramid);
  program.ops[0].forms[0].is_pure = false;
  const std::vector<StorageChoice> choices = choices_of(program, keep_all(program));
  EXPECT_EQ(choice_of(choices, kA0).again_ps, std::nullopt);
  EXPECT_EQ(choice_of(choices, kA1).again_ps, kSecond);
}

TEST(Choices, CountAllThatWroteInPlace) {
  Program program = program_of(kPyramid);
  Form& f1 = program.ops[1].forms[0];  // Now changes a0 in place, for b0, which wants that.
  f1.writes.push_back({.storage = kA0, .version = 2});
  program.ops[5].forms[0].reads[1].version = 2;
  f1.time_ps = 3 * kSecond;
  ASSERT_TRUE(validate(program).has_value());
  const StorageChoice a0 = choice_of(choices_of(program, keep_all(program)), kA0);
  EXPECT_EQ(a0.again_ps, 4 * kSecond);  // f0 and f1.
}

TEST(Choices, OfPersistentStoragesHaveGapsAcrossSteps) {
  Program program = program_of(kPyramid);
  program.storages[kA2.index()].is_persistent = true;
  program.storages[kA2.index()].kind = StorageKind::Buffer;
  const StorageChoice a2 = choice_of(choices_of(program, keep_all(program)), kA2);
  EXPECT_EQ(a2.choice, Choice::Home);
  EXPECT_EQ(a2.gap_ps, 4 * kSecond);  // From the end of b2, 4, to 6, and from 0 to f2, 2.
  EXPECT_EQ(program.ops[a2.before.index()].name, "b2");
  EXPECT_EQ(program.ops[a2.after.index()].name, "f2");
}

TimeUse use_of(const Program& program, const Plan& plan, const Machine& machine) {
  return time_use(program, plan, machine, simulate(program, plan, machine));
}

TEST(TimeUse, TellsRecomputesAndStartsApart) {
  const Program program = program_of(kPyramid);
  Machine machine = unit_machine();
  machine.launch_ps = 5;
  const TimeUse use = use_of(program, recompute_a0(program), machine);
  EXPECT_EQ(use.compute.first_ps, 6 * kSecond);
  EXPECT_EQ(use.compute.recompute_ps, kSecond);
  EXPECT_EQ(use.compute.launch_ps, 7 * 5);
  EXPECT_EQ(use.compute.stall_ps, 0);
  EXPECT_TRUE(use.stalls.empty());
}

//   second     0  1  2  3  4  5  6
//   compute   |f0|f1|f2|b2|..|b1|b0|
//   evict           |a0|a1|
//   prefetch              |a1|a0|
TEST(TimeUse, NamesTheCauseOfEveryStall) {
  const Program program = program_of(kPyramid);
  const TimeUse use = use_of(program, offload_gaps(program), unit_machine());
  EXPECT_EQ(use.compute.first_ps, 6 * kSecond);
  EXPECT_EQ(use.compute.stall_ps, kSecond);
  EXPECT_EQ(use.compute.tail_ps, 0);
  ASSERT_EQ(use.stalls.size(), 3U);
  EXPECT_EQ(use.stalls[0].time_ps, 4 * kSecond);
  EXPECT_EQ(use.stalls[0].cause, (ActionRef{Lane::Evict, 1}));
  EXPECT_EQ(use.stalls[0].storage, kA1);
  EXPECT_EQ(use.stalls[1].cause, (ActionRef{Lane::Compute, 1}));
  EXPECT_TRUE(use.stalls[1].storage.is_none());
  EXPECT_EQ(use.stalls[2].action, (ActionRef{Lane::Compute, 4}));
  EXPECT_EQ(use.stalls[2].cause, (ActionRef{Lane::Prefetch, 0}));
  EXPECT_EQ(use.stalls[2].storage, kA1);
  const LaneUse& evict = use.lanes[static_cast<size_t>(Lane::Evict)];
  EXPECT_EQ(evict.busy_ps, 2 * kSecond);
  EXPECT_EQ(evict.stall_ps, 2 * kSecond);
}

TEST(TimeUse, CountsTrafficOnTheLinksThatItCrosses) {
  const Program program = program_of(kPyramid);
  const TimeUse use = use_of(program, offload_gaps(program), unit_machine());
  ASSERT_EQ(use.links.size(), 2U);
  EXPECT_EQ(use.links[0].evict.copies, 2);
  EXPECT_EQ(use.links[0].evict.bytes, 2);
  EXPECT_EQ(use.links[0].prefetch.busy_ps, 2 * kSecond);
  EXPECT_EQ(use.links[1].evict.copies, 0);
}

TEST(TimeUse, CountsWhatCopiesSlowDown) {
  const Program program = program_of(kPyramid);
  Machine machine = unit_machine();
  machine.links[0].compute_slowdown = 1.5;
  const Plan plan = offload_gaps(program);
  const Timeline timeline = simulate(program, plan, machine);
  const ComputeUse use = time_use(program, plan, machine, timeline).compute;
  EXPECT_GT(use.slowed_ps, 0);
  EXPECT_EQ(
      use.first_ps + use.recompute_ps + use.launch_ps + use.slowed_ps + use.stall_ps + use.tail_ps,
      timeline.total_ps);
}

//   compute   f0 f1 f2 b2 b1 b0
//   bytes      1  2  3  3  2  1
TEST(AtPeak, NamesWhatIsThere) {
  const Program program = program_of(kPyramid);
  const Plan plan = keep_all(program);
  const Peak peak = at_peak(program, plan, simulate(program, plan, unit_machine()));
  EXPECT_EQ(peak.position, 2);
  EXPECT_EQ(peak.bytes, 3);
  ASSERT_EQ(peak.storages.size(), 3U);
  EXPECT_EQ(peak.storages[0], kA0);
  EXPECT_EQ(peak.storages[2], kA2);
}

TEST(AtPeak, LeavesOutWhatIsElsewhere) {
  const Program program = program_of(kPyramid);
  const Plan plan = offload_gaps(program);
  const Peak peak = at_peak(program, plan, simulate(program, plan, unit_machine()));
  // f2 runs from 2 to 3 beside the eviction of a0; before and after it fewer bytes are there.
  EXPECT_EQ(peak.position, 2);
  EXPECT_EQ(peak.storages.size(), 3U);
}

TEST(Trace, HasOneSpanPerActionAndTheBytes) {
  const Program program = program_of(kPyramid);
  const Plan plan = offload_gaps(program);
  const auto trace =
      nlohmann::json::parse(print_trace(program, plan, simulate(program, plan, unit_machine())));
  size_t spans = 0;
  size_t bytes = 0;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "C") ++bytes;
    if (event.at("ph") != "X") continue;
    ++spans;
    if (event.at("name") != "b1") continue;
    EXPECT_EQ(event.at("ts"), 5e6);  // Microseconds.
    EXPECT_EQ(event.at("dur"), 1e6);
    EXPECT_EQ(event.at("args").at("stall_us"), 1e6);
  }
  EXPECT_EQ(spans, 10U);  // Six ops, two evictions, two prefetches.
  EXPECT_EQ(bytes, 6U);
}

TEST(Trace, MarksRecomputes) {
  const Program program = program_of(kPyramid);
  const Plan plan = recompute_a0(program);
  const std::string trace = print_trace(program, plan, simulate(program, plan, unit_machine()));
  EXPECT_NE(trace.find("\"f0 (again)\""), std::string::npos) << trace;
}

}  // namespace
}  // namespace fitstep

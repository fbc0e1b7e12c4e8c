// Blocks on the pyramid and the unit machine: every op a second, every copy of a byte a second.
#include "fitstep/report/held_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "fitstep/simulate/simulator.h"
#include "tests/programs/pyramid.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"
#include "tests/support/offload_gaps.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

std::vector<HeldBlock> blocks_of(const Program& program, const Plan& plan) {
  return held_blocks(program, plan, simulate(program, plan, unit_machine()));
}

std::vector<HeldBlock> of_storage(const std::vector<HeldBlock>& blocks, StorageId storage) {
  std::vector<HeldBlock> found;
  for (const HeldBlock& block : blocks) {
    if (block.storage == storage) found.push_back(block);
  }
  return found;
}

// Most bytes live at once, in the order of openings and closings.
int64_t most_bytes(const std::vector<HeldBlock>& blocks) {
  std::vector<std::tuple<int32_t, int64_t>> changes;
  for (const HeldBlock& block : blocks) {
    changes.emplace_back(block.opened, block.size_bytes);
    changes.emplace_back(block.closed, -block.size_bytes);
  }
  std::ranges::sort(changes);
  int64_t most = 0;
  int64_t live = 0;
  for (const auto& [place, change] : changes) most = std::max(most, live += change);
  return most;
}

void expect_apart(const std::vector<HeldBlock>& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (size_t k = i + 1; k < blocks.size(); ++k) {
      const HeldBlock& a = blocks[i];
      const HeldBlock& b = blocks[k];
      const bool in_order = a.opened < b.closed && b.opened < a.closed;
      const bool in_time = a.begin_ps < b.end_ps && b.begin_ps < a.end_ps;
      const bool in_space = a.offset_bytes < b.offset_bytes + b.size_bytes &&
                            b.offset_bytes < a.offset_bytes + a.size_bytes;
      EXPECT_FALSE(in_space && (in_order || in_time)) << "blocks " << i << " and " << k;
    }
  }
}

//   compute   f0 f1 f2 b2 b1 b0
//   a0        |==============|       from 0 to 6, the end of b0
//   a1           |========|          from 1 to 5
TEST(HeldBlocks, LastFromTheFirstWriteToTheLastRead) {
  const Program program = program_of(kPyramid);
  const Plan plan = keep_all(program);
  const std::vector<HeldBlock> blocks = blocks_of(program, plan);
  ASSERT_EQ(blocks.size(), 3U);  // Not the gradients, which have no bytes, nor x and the loss.
  const HeldBlock a0 = of_storage(blocks, kA0).at(0);
  EXPECT_EQ(a0.begin_ps, 0);
  EXPECT_EQ(a0.end_ps, 6 * kSecond);
  EXPECT_EQ(a0.begun_by, (ActionRef{Lane::Compute, 0}));
  EXPECT_EQ(a0.ended_by, (ActionRef{Lane::Compute, 5}));
  const HeldBlock a1 = of_storage(blocks, kA1).at(0);
  EXPECT_EQ(a1.begin_ps, kSecond);
  EXPECT_EQ(a1.end_ps, 5 * kSecond);
  EXPECT_EQ(most_bytes(blocks), plan.certificate.peak_bytes);
  expect_apart(blocks);
}

//   second     0  1  2  3  4  5  6
//   compute   |f0|f1|f2|b2|..|b1|b0|
//   evict           |a0|a1|
//   prefetch              |a1|a0|
TEST(HeldBlocks, EndWithAnEvictionAndBeginWithAPrefetch) {
  const Program program = program_of(kPyramid);
  const std::vector<HeldBlock> blocks = blocks_of(program, offload_gaps(program));
  const std::vector<HeldBlock> a0 = of_storage(blocks, kA0);
  ASSERT_EQ(a0.size(), 2U);
  EXPECT_EQ(a0[0].ended_by, (ActionRef{Lane::Evict, 0}));
  EXPECT_EQ(a0[0].end_ps, 3 * kSecond);
  EXPECT_EQ(a0[1].begun_by, (ActionRef{Lane::Prefetch, 1}));
  EXPECT_EQ(a0[1].begin_ps, 5 * kSecond);
  expect_apart(blocks);
}

TEST(HeldBlocks, OfHomesLastTheWholeStep) {
  Program program = program_of(kPyramid);
  program.storages[kA0.index()].is_persistent = true;
  program.storages[kA0.index()].kind = StorageKind::Buffer;
  const std::vector<HeldBlock> blocks = blocks_of(program, keep_all(program));
  EXPECT_EQ(blocks.at(0).storage, kA0);  // Homes come first.
  EXPECT_EQ(blocks.at(0).begun_by.position, -1);
  EXPECT_EQ(blocks.at(0).ended_by.position, -1);
  EXPECT_EQ(blocks.at(0).end_ps, 6 * kSecond);
}

// f0 requests two bytes of scratch, releases them, requests its output, and one more of scratch:
//
//   position    0   1   2   3   4        seconds 0, 0.2, 0.4, ...
//   scratch     |2======|   |1==|
//   a0                  |=============
TEST(HeldBlocks, OfScratchAndOutputsFollowTheKernelsRequests) {
  Program program = program_of(kPyramid);
  program.ops[0].forms[0].requests = {{.size_bytes = 2, .live = {.begin = 0, .end = 2}},
                                      {.size_bytes = 1, .live = {.begin = 2, .end = 4}},
                                      {.size_bytes = 1, .live = {.begin = 3, .end = 4}}};
  program.ops[0].forms[0].requests[1].output = kA0;
  const Plan plan = keep_all(program);
  const std::vector<HeldBlock> blocks = blocks_of(program, plan);
  const std::vector<HeldBlock> scratch = of_storage(blocks, StorageId());
  ASSERT_EQ(scratch.size(), 2U);
  EXPECT_EQ(scratch[0].size_bytes, 2);
  EXPECT_EQ(scratch[0].begin_ps, 0);
  EXPECT_EQ(scratch[0].end_ps, 2 * kSecond / 5);
  EXPECT_EQ(of_storage(blocks, kA0).at(0).begin_ps, 2 * kSecond / 5);
  EXPECT_EQ(scratch[1].begin_ps, 3 * kSecond / 5);
  EXPECT_EQ(most_bytes(blocks), plan.certificate.peak_bytes);
  expect_apart(blocks);
}

TEST(HeldBlocks, OfWorkerThreadsAreAllThereForTheWholeOp) {
  Program program = program_of(kPyramid);
  program.ops[0].forms[0].requests = {
      {.size_bytes = 2, .live = {.begin = 0, .end = 1}, .is_any_thread = true},
      {.size_bytes = 1, .live = {.begin = 2, .end = 3}, .is_any_thread = true}};
  const std::vector<HeldBlock> scratch =
      of_storage(blocks_of(program, keep_all(program)), StorageId());
  ASSERT_EQ(scratch.size(), 2U);
  for (const HeldBlock& block : scratch) {
    EXPECT_EQ(block.begin_ps, 0);
    EXPECT_EQ(block.end_ps, kSecond);
  }
}

// The peak is the plan's, and the simulator's where copies run beside ops.
TEST(HeldBlocks, NeverOverlapAndHaveTheirPlansPeak) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = random_program(seed);
    const Plan kept = keep_all(program);
    EXPECT_EQ(most_bytes(blocks_of(program, kept)), kept.certificate.peak_bytes);
    expect_apart(blocks_of(program, kept));
    const Plan offloaded = offload_gaps(program, GapsTo::Both);
    const Timeline timeline = simulate(program, offloaded, unit_machine());
    const std::vector<HeldBlock> blocks = held_blocks(program, offloaded, timeline);
    EXPECT_LE(most_bytes(blocks), timeline.peak_bytes);
    expect_apart(blocks);
  }
}

}  // namespace
}  // namespace fitstep

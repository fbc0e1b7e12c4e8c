#include "fitstep/report/pool_sizes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/report/device_lives.h"
#include "fitstep/report/kind_bytes.h"
#include "fitstep/simulate/simulator.h"
#include "tests/programs/chain_program.h"
#include "tests/support/keep_all.h"

namespace fitstep {
namespace {

PoolRequest take(int32_t block, int64_t size_bytes, bool is_long_lived = false) {
  return {.block = block, .size_bytes = size_bytes, .is_long_lived = is_long_lived};
}
PoolRequest give(int32_t block) { return {.block = block}; }

// The example of vDNN++'s authors, in units: 5, 2 and 1 come, 2 goes, 1 comes, 5 and the first 1
// go, 8 comes. A pool of 9 has them in a row; in one of 10 the last 1 lies where it divides what is
// free.
std::vector<PoolRequest> example() {
  return {take(0, 5), take(1, 2), take(2, 1), give(1), take(3, 1), give(0), give(2), take(4, 8)};
}

TEST(PoolSizes, OfBestFitAreNotMonotonic) {
  for (int64_t pool = 9; pool <= 16; ++pool) {
    const bool fits = !missing_bytes(example(), PoolRule::BestFit, pool).has_value();
    EXPECT_EQ(fits, pool == 9 || pool >= 14) << pool;
  }
}

TEST(PoolSizes, OfTheExactSequenceStartFromTheExpectedOne) {
  const PoolSizes sizes = pool_sizes(example());
  EXPECT_EQ(sizes.expected_bytes, 9);  // 8 and the last 1.
  EXPECT_EQ(sizes.best_fit_bytes, 9);
}

// A long-lived block of 1 between two that come and go divides the pool; from the right it does
// not.
TEST(PoolSizes, AreSmallerWithWhatLivesLongAtTheOtherEnd) {
  const std::vector<PoolRequest> requests = {take(0, 2), take(1, 1, true), give(0),
                                             take(2, 3), give(2),          take(3, 4)};
  const PoolSizes sizes = pool_sizes(requests);
  EXPECT_EQ(sizes.expected_bytes, 5);
  EXPECT_EQ(sizes.long_right_bytes, 5);
  EXPECT_GT(sizes.best_fit_bytes, 5);
}

// 1 MiB, then 2 MiB when it has gone: a second base block of 2 MiB. Side by side they hold 3 MiB.
TEST(PoolSizes, OfMergedBaseBlocksLetABlockSpanThem) {
  constexpr int64_t kMib = 1 << 20;
  const std::vector<PoolRequest> requests = {take(0, kMib), give(0), take(1, 2 * kMib), give(1),
                                             take(2, 3 * kMib)};
  const PoolSizes sizes = pool_sizes(requests);
  EXPECT_EQ(sizes.growing_merged_bytes, 3 * kMib);
  EXPECT_EQ(sizes.growing_bytes, 6 * kMib);
}

// A chain of three layers, everything kept: a0 to a3 and two gradients of 512 bytes at b3.
TEST(PoolRequests, OfAPlanNeedItsPeak) {
  const Program program = chain_program({.layers = 3, .unit_bytes = 512});
  const Plan plan = keep_all(program);
  const Timeline timeline = simulate(program, plan, unit_machine());
  const PoolSizes sizes = pool_sizes(pool_requests(program, plan, timeline));
  EXPECT_EQ(sizes.expected_bytes, 6 * 512);
  EXPECT_GE(sizes.best_fit_bytes, sizes.expected_bytes);
  int64_t most_bytes = 0;
  for (size_t i = 0; i < plan.lane(Lane::Compute).size(); ++i) {
    int64_t bytes = 0;
    for (const DeviceLife& life : device_lives(program, plan, timeline)) {
      const auto tick = static_cast<Tick>(i);
      if (life.live.begin <= tick && tick < life.live.end) bytes += life.size_bytes;
    }
    most_bytes = std::max(most_bytes, bytes);
  }
  EXPECT_EQ(most_bytes, plan.certificate.peak_bytes);
}

// 8 ops of 1 second; a0 to a3 are maps, g3 to g0 their gradients, which begin with b3.
TEST(KindBytes, TellMapsFromTheirGradients) {
  Program program = chain_program({.layers = 3, .unit_bytes = 512});
  for (Op& op : program.ops) {
    if (op.name == "loss" || op.name.starts_with('b')) op.name += "_backward";
  }
  const Plan plan = keep_all(program);
  const Timeline timeline = simulate(program, plan, unit_machine());
  const auto bytes = bytes_by_kind(program, plan, timeline);
  ASSERT_EQ(bytes.size(), 8U);
  EXPECT_EQ(over_time(bytes, timeline, {ByteKind::Maps}).most_bytes, 4 * 512);
  EXPECT_EQ(over_time(bytes, timeline, {ByteKind::MapGradients}).most_bytes, 2 * 512);
  EXPECT_EQ(over_time(bytes, timeline, {ByteKind::Weights}).most_bytes, 0);
  // 1 2 3 4 maps forward, 4 at the loss, then 4 3 2: 23 units in 8 seconds.
  EXPECT_EQ(over_time(bytes, timeline, {ByteKind::Maps}).average_bytes, 23 * 512 / 8);
}

}  // namespace
}  // namespace fitstep

// Chains of equal layers, where much about the best plan is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/support/all_plans.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

Machine two_tiers() {
  Machine machine = unit_machine();
  machine.tiers.resize(2);
  machine.links.resize(1);
  return machine;
}

struct ChainTally {
  size_t compared = 0;
  size_t attained = 0;
};

// At every room of whole layers.
void compare_offload(int32_t layers, int64_t unit_bytes, ChainTally& tally) {
  const Machine machine = two_tiers();
  const Program program = chain_program({.layers = layers, .unit_bytes = unit_bytes});
  const Values values(program, make_order(program));
  const TimeBounds bounds(values, machine, make_homes(program, {}), {false, true});
  for (int64_t bytes = 4 * unit_bytes; bytes < (layers + 3) * unit_bytes; bytes += unit_bytes) {
    const LeastTime least =
        least_time(values, machine, {.room_bytes = bytes, .moves = {false, true}});
    if (!least.ps) continue;
    const int64_t ps = bounds.at(bytes).ps;
    EXPECT_LE(ps, *least.ps) << layers << " layers, " << bytes << " bytes";
    // Within two copies: the last ones in or out may have to wait for an op.
    EXPECT_GE(ps + 2 * unit_bytes * kSecond, *least.ps)
        << layers << " layers, " << bytes << " bytes";
    ++tally.compared;
    tally.attained += ps == *least.ps ? 1U : 0U;
  }
}

// Ops of 1 s, copies of 1, 2 and 3 s.
TEST(BoundOnChains, OffloadIsAttainedWhereCopiesNeverStarve) {
  ChainTally tally;
  for (int32_t layers = 2; layers <= 5; ++layers) {
    for (const int64_t unit_bytes : {1, 2, 3}) compare_offload(layers, unit_bytes, tally);
  }
  EXPECT_GT(tally.compared, 20U);
  EXPECT_GT(tally.attained * 2, tally.compared);
}

// Least number of steps run to reverse a chain of `length`, with so many states kept at once, the
// first among them: run ahead, keep a state there, reverse what lies behind it, then the rest. With
// c states and r repetitions chains of up to C(c + r, c) steps can be reversed.
std::vector<std::vector<int64_t>> binomial_steps(size_t most_length, size_t most_states) {
  std::vector<std::vector<int64_t>> steps(most_states + 1,
                                          std::vector<int64_t>(most_length + 1, 0));
  for (size_t states = 1; states <= most_states; ++states) {
    for (size_t length = 1; length <= most_length; ++length) {
      const auto size = static_cast<int64_t>(length);
      int64_t least = size * (size + 1) / 2;
      for (size_t ahead = 1; states > 1 && ahead < length; ++ahead) {
        least = std::min(least, static_cast<int64_t>(ahead) + steps[states - 1][length - ahead] +
                                    steps[states][ahead]);
      }
      steps[states][length] = least;
    }
  }
  return steps;
}

TEST(BoundOnChains, RecomputeIsBelowTheBinomialNumbers) {
  constexpr size_t kLayers = 64;
  const Program program = chain_program({.layers = kLayers});
  const Values values(program, make_order(program));
  const Machine machine{.name = "unit", .tiers = {{.name = "device"}}};
  const TimeBounds bounds(values, machine, make_homes(program, {}), {true, false});
  const std::vector<std::vector<int64_t>> steps = binomial_steps(kLayers, kLayers);
  const int64_t once_ps = compute_bound_ps(program, machine);
  for (size_t states = 1; states < kLayers - 2; ++states) {
    // Beside the states: two activations and two gradients of the step that is being reversed.
    const int64_t units = static_cast<int64_t>(states) + 4;
    const int64_t extra = (bounds.at(units * 64).ps - once_ps) / kSecond;
    EXPECT_LE(extra, steps[states][kLayers] - static_cast<int64_t>(kLayers)) << units << " units";
    // All but what can be held has to be made once more.
    EXPECT_GE(extra, static_cast<int64_t>(kLayers) + 3 - units) << units << " units";
  }
}

}  // namespace
}  // namespace fitstep

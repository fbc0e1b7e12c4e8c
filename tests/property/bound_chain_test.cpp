// Chains of equal layers, where much about the best plan is known.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/assemble.h"
#include "fitstep/planner/bound.h"
#include "fitstep/planner/order.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/support/all_plans.h"
#include "tests/support/chain_program.h"

namespace fitstep {
namespace {

constexpr int64_t kSecond = kPicosecondsPerSecond;

Machine two_tiers() {
  Machine machine = unit_machine();
  machine.tiers.resize(2);
  machine.links.resize(1);
  return machine;
}

// Layers of 1 byte, so that a copy takes 1 s; ops take less or as long, so that copies bind.
TEST(BoundOnChains, OffloadIsAttainedWhereCopiesNeverStarve) {
  const Machine machine = two_tiers();
  size_t compared = 0;
  size_t attained = 0;
  for (int32_t layers = 2; layers <= 5; ++layers) {
    for (const int64_t bytes : {1, 2, 3}) {
      const Program program = chain_program({.layers = layers, .unit_bytes = bytes});
      const Values values(program, make_order(program));
      const TimeBounds bounds(values, machine, make_homes(program, {}), {false, true});
      for (int64_t units = 4; units < layers + 3; ++units) {
        const LeastTime least =
            least_time(values, machine, {.room_bytes = units * bytes, .moves = {false, true}});
        if (!least.ps) continue;
        const int64_t ps = bounds.at(units * bytes).ps;
        EXPECT_LE(ps, *least.ps) << layers << " layers, " << units << " units";
        // Within one copy: the last one in or out may have to wait for an op.
        EXPECT_GE(ps + 2 * bytes * kSecond, *least.ps)
            << layers << " layers, " << units << " units";
        ++compared;
        if (ps == *least.ps) ++attained;
      }
    }
  }
  EXPECT_GT(compared, 20U);
  EXPECT_GT(attained * 2, compared);
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

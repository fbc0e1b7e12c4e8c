// Uniform chains: with little room, the planner reaches the binomial number of extra forwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

// Least number of forward runs to reverse a chain, by layers and by activations held besides the
// first one: run ahead to an activation, hold it, reverse the layers after it with one less, then
// the layers before it. The layer that is being reversed needs none: its two activations are in its
// working set. Griewank and Walther's binomial numbers, for backward ops that read their layer's
// output too.
std::vector<std::vector<int64_t>> least_forwards(size_t most_layers) {
  std::vector<std::vector<int64_t>> least(most_layers + 1, std::vector<int64_t>(most_layers, 0));
  for (size_t held = 0; held < most_layers; ++held) {
    for (size_t layers = 2; layers <= most_layers; ++layers) {
      int64_t best = static_cast<int64_t>(layers) - 1 + least[layers - 1][held];
      for (size_t ahead = 1; held > 0 && ahead + 1 < layers; ++ahead) {
        best = std::min(best, static_cast<int64_t>(ahead) + least[layers - ahead][held - 1] +
                                  least[ahead][held]);
      }
      least[layers][held] = best;
    }
  }
  return least;
}

std::optional<int64_t> extra_forwards(const Frontier& frontier, int64_t units) {
  std::optional<int64_t> extra;
  for (const Point& point : frontier.points) {
    if (point.height_bytes > units * kUnitBytes) continue;
    const int64_t forwards = (point.predicted_ps - frontier.bound_ps) / kPicosecondsPerSecond;
    if (!extra || forwards < *extra) extra = forwards;
  }
  return extra;
}

// Beside those held: a0, which cannot be made again, and two activations and two gradients of the
// layer that is worked off.
constexpr int64_t kWorkingUnits = 5;

void expect_binomial(int32_t layers, int64_t first_units, int64_t last_units) {
  const auto count = static_cast<size_t>(layers);
  const std::vector<std::vector<int64_t>> least = least_forwards(count);
  const Machine machine = lone_device();
  const Program program = chain_program({.layers = layers, .unit_bytes = kUnitBytes});
  const Frontier frontier = make_frontier(program, machine, {.policy = "recompute"});
  expect_valid(program, frontier);
  for (int64_t units = first_units; units <= last_units; ++units) {
    const int64_t binomial =
        least[count][static_cast<size_t>(units - kWorkingUnits)] - (layers - 1);
    EXPECT_EQ(extra_forwards(frontier, units), binomial)
        << layers << " layers in " << units << " units";
  }
}

TEST(Revolve, ReachesTheBinomialNumbersFromTheFloorToAllKept) {
  for (const int32_t layers : {4, 5, 8, 11, 16, 20}) {
    expect_binomial(layers, kWorkingUnits, layers + 3);
  }
}

// Above, targets of the ladder are more than one unit apart.
TEST(Revolve, ReachesTheBinomialNumbersOfLongChainsInLittleRoom) {
  for (const int32_t layers : {24, 32, 48, 64}) expect_binomial(layers, kWorkingUnits, 25);
}

}  // namespace
}  // namespace fitstep

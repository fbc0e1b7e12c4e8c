// Two faults of activation-memory budgets in PyTorch; fitstep must not have them.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <variant>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

// pytorch issue 197871: of three items of one unit, a knapsack of one unit was filled with two.
// Here three values of one unit are saved for the last op, and beside them "m", which has to stay.
constexpr const char* kThreeItems =
    "fitstep program 1\n"
    "name \"items\"\n"
    "call 0 \"call\"\n"
    "storage 0 \"x\" 64 input start\n"
    "storage 1 \"a\" 64 temporary\n"
    "storage 2 \"b\" 64 temporary\n"
    "storage 3 \"c\" 64 temporary\n"
    "storage 4 \"m\" 64 temporary\n"
    "storage 5 \"wide\" 256 temporary\n"
    "storage 6 \"n\" 64 temporary\n"
    "storage 7 \"g\" 64 temporary\n"
    "op 0 \"a\" other\n"
    "form \"default\" call 0 time 1000000000000 pure reads 0.0 writes 1.1\n"
    "op 1 \"b\" other\n"
    "form \"default\" call 0 time 1000000000000 pure reads 0.0 writes 2.1\n"
    "op 2 \"c\" other\n"
    "form \"default\" call 0 time 1000000000000 pure reads 0.0 writes 3.1\n"
    "op 3 \"mix\" other\n"
    "form \"default\" call 0 time 1000000000000 reads 1.1 2.1 3.1 writes 4.1\n"
    "op 4 \"widen\" other\n"
    "form \"default\" call 0 time 1000000000000 reads 4.1 writes 5.1\n"
    "op 5 \"narrow\" other\n"
    "form \"default\" call 0 time 1000000000000 reads 5.1 writes 6.1\n"
    "op 6 \"use\" other\n"
    "form \"default\" call 0 time 1000000000000 reads 1.1 2.1 3.1 4.1 6.1 writes 7.1\n"
    "end calls 1 storages 8 ops 7\n";

TEST(KnapsackFaults, NoMoreIsKeptThanThereIsRoomFor) {
  const Program program = program_of(kThreeItems);
  Machine machine = unit_machine();
  machine.tiers.resize(1);
  machine.links.clear();
  // While `wide` is read, 6 units are taken: beside them so many of the three can be kept.
  // Each of the others is made again in one second.
  for (int64_t kept = 0; kept <= 3; ++kept) {
    const int64_t capacity_bytes = (6 + kept) * kUnitBytes;
    const Outcome outcome =
        make_plan(program, machine, {.capacity_bytes = capacity_bytes, .policy = "recompute"});
    expect_valid(program, outcome, capacity_bytes);
    const Fits* fits = std::get_if<Fits>(&outcome);
    ASSERT_NE(fits, nullptr) << kept << " kept";
    EXPECT_EQ(fits->plan.certificate.height_bytes, capacity_bytes);
    EXPECT_EQ(fits->plan.certificate.predicted_ps, (7 + 3 - kept) * kPicosecondsPerSecond);
  }
}

// pytorch issue 197838: a smaller budget gave a higher peak.
void expect_falling_peaks(const Program& program, const std::string& policy) {
  Machine machine = unit_machine();
  machine.tiers.resize(2);
  machine.links.resize(1);
  const Frontier frontier = make_frontier(program, machine, {.effort = 2, .policy = policy});
  expect_valid(program, frontier);
  int64_t last_bytes = std::numeric_limits<int64_t>::max();
  int64_t last_ps = 0;
  const int64_t most_bytes = frontier.points.front().height_bytes;
  for (int64_t bytes = most_bytes; bytes >= frontier.floor_bytes; bytes -= kUnitBytes) {
    const Outcome outcome = choose(frontier, bytes);
    const Fits* fits = std::get_if<Fits>(&outcome);
    if (fits == nullptr) break;
    EXPECT_LE(fits->plan.certificate.height_bytes, bytes);
    EXPECT_LE(fits->plan.certificate.height_bytes, last_bytes) << bytes;
    EXPECT_GE(fits->plan.certificate.predicted_ps, last_ps) << bytes;
    last_bytes = fits->plan.certificate.height_bytes;
    last_ps = fits->plan.certificate.predicted_ps;
  }
}

TEST(KnapsackFaults, PeaksNeverRiseWhenTheBudgetFalls) {
  for (const char* const policy : {"recompute", "offload", "auto"}) {
    SCOPED_TRACE(policy);
    expect_falling_peaks(chain_program({.layers = 12}), policy);
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(seed);
      expect_falling_peaks(random_program(seed, {.layers = 6, .unit_bytes = kUnitBytes}), policy);
    }
  }
}

}  // namespace
}  // namespace fitstep

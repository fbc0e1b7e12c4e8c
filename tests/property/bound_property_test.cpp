// No plan of any small program is faster than its time bound, and bounds move as they should.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/random_program.h"
#include "tests/programs/tiny_program.h"
#include "tests/support/all_plans.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

// Set for the long form.
uint64_t program_count(uint64_t usual) {
  return std::getenv("FITSTEP_LONG") == nullptr ? usual : 10'000;
}

Machine unit_machine_with(int64_t evict_bytes_per_s, int64_t prefetch_bytes_per_s) {
  Machine machine = unit_machine();
  machine.tiers.resize(2);
  machine.links.resize(1);
  machine.links[0].evict.alone_bytes_per_s = evict_bytes_per_s;
  machine.links[0].evict.both_bytes_per_s = evict_bytes_per_s;
  machine.links[0].prefetch.alone_bytes_per_s = prefetch_bytes_per_s;
  machine.links[0].prefetch.both_bytes_per_s = prefetch_bytes_per_s;
  return machine;
}

struct BoundTally {
  size_t asked = 0;
  size_t unknown = 0;
  size_t above_compute = 0;  // Bounds that say more than every op once.
  size_t attained = 0;       // Of those.
};

void expect_worth_it(const BoundTally& tally) {
  std::cout << tally.asked << " questions, " << tally.unknown << " too large, "
            << tally.above_compute << " bounds above compute, " << tally.attained
            << " of them attained\n";
  EXPECT_LT(tally.unknown * 20, tally.asked);
  EXPECT_GT(tally.above_compute * 10, tally.asked);
  EXPECT_GT(tally.attained * 8, tally.above_compute);
}

// Compares at every room from the floor to the peak.
void expect_below_all_plans(const Program& program, const Machine& machine, int64_t unit_bytes,
                            const Moves& moves, BoundTally& tally) {
  const Values values(program, make_order(program));
  const Needs needs(values, machine, moves.is_mobile);
  const Homes homes = make_homes(program, {});
  const TimeBounds bounds(values, machine, homes, moves);
  // In these programs all that has a home is mobile, or nothing is.
  const int64_t home_bytes = moves.is_mobile.empty() ? homes.size_bytes : 0;
  int64_t room_bytes = 0;
  int64_t most_bytes = 0;
  for (Tick tick = 0; tick < needs.tick_count(); ++tick) {
    room_bytes = std::max(room_bytes, needs.working_bytes(tick));
    most_bytes = std::max(most_bytes, needs.load_bytes(tick));
  }
  const int64_t compute_ps = compute_bound_ps(program, machine);
  for (; room_bytes < most_bytes; room_bytes += unit_bytes) {
    const TimeBound bound = bounds.at(home_bytes + room_bytes);
    const LeastTime least = least_time(values, machine, {.room_bytes = room_bytes, .moves = moves});
    ++tally.asked;
    if (!least.is_known) ++tally.unknown;
    if (!least.ps) continue;
    EXPECT_LE(bound.ps, *least.ps) << program.name << " room " << room_bytes << ": " << bound.name;
    const bool is_above = bound.ps > compute_ps;
    tally.above_compute += is_above ? 1U : 0U;
    tally.attained += is_above && bound.ps == *least.ps ? 1U : 0U;
  }
}

TEST(BoundProperty, NoPlanIsFaster) {
  BoundTally tally;
  for (uint64_t seed = 1; seed <= program_count(400); ++seed) {
    const int64_t unit_bytes = seed % 3 == 0 ? 2 : 1;  // Twice the rate in one direction.
    Machine machine =
        seed % 2 == 0 ? unit_machine_with(1, unit_bytes) : unit_machine_with(unit_bytes, 1);
    if (seed % 5 == 0) machine.tiers[1].capacity_bytes = 4 * unit_bytes;
    const Program program = tiny_program(seed, {.unit_bytes = unit_bytes});
    expect_below_all_plans(program, machine, unit_bytes, {true, false}, tally);
    expect_below_all_plans(program, machine, unit_bytes, {false, true}, tally);
    expect_below_all_plans(program, machine, unit_bytes, {true, true}, tally);
  }
  expect_worth_it(tally);
}

TEST(BoundProperty, NoPlanIsFasterWhereWeightsMayLeave) {
  BoundTally tally;
  for (uint64_t seed = 1; seed <= program_count(150); ++seed) {
    const Program program = tiny_program(seed, {.most_ops = 6});
    std::vector<char> is_mobile;
    is_mobile.reserve(program.storages.size());
    for (const Storage& storage : program.storages) is_mobile.push_back(has_home(storage) ? 1 : 0);
    const Machine machine = unit_machine_with(1, 1);
    expect_below_all_plans(program, machine, 1, {false, true, is_mobile}, tally);
    expect_below_all_plans(program, machine, 1, {true, true, is_mobile}, tally);
  }
  expect_worth_it(tally);
}

// More room and faster copies never make a bound higher, but for the last digits of a double.
void expect_monotone(const Program& program, const Moves& moves) {
  const Values values(program, make_order(program));
  const Homes homes = make_homes(program, {});
  const TimeBounds slow(values, unit_machine_with(1, 2), homes, moves);
  const TimeBounds fast(values, unit_machine_with(2, 3), homes, moves);
  int64_t last_ps = 0;
  for (int64_t bytes = 384; bytes >= 0; bytes -= 5) {
    const int64_t ps = slow.at(homes.size_bytes + bytes).ps;
    constexpr int64_t kDigits = 100'000'000'000'000;
    EXPECT_GE(ps + ps / kDigits, last_ps) << bytes << " bytes";
    EXPECT_GE(ps + ps / kDigits, fast.at(homes.size_bytes + bytes).ps) << bytes << " bytes";
    last_ps = ps;
  }
}

TEST(BoundProperty, BoundsMoveWithRoomAndRates) {
  for (uint64_t seed = 1; seed <= program_count(40); ++seed) {
    SCOPED_TRACE(seed);
    const Program program =
        random_program(seed, {.layers = 1 + static_cast<int32_t>(seed % 12), .most_bytes = 16});
    expect_monotone(program, {true, false});
    expect_monotone(program, {false, true});
    expect_monotone(program, {true, true});
  }
}

// With recompute alone real plans are at hand: all of them take at least what the best takes here.
// How many take longer than every op once.
size_t expect_plans_among_all(const Program& program, uint64_t seed) {
  Machine machine = unit_machine();
  machine.tiers.resize(1);
  machine.links.clear();
  const Values values(program, make_order(program));
  const Homes homes = make_homes(program, {});
  const Frontier frontier = make_frontier(program, machine, {.seed = seed, .effort = 2});
  expect_valid(program, frontier);
  size_t longer = 0;
  for (const Point& point : frontier.points) {
    const int64_t room_bytes = point.height_bytes - homes.size_bytes;
    const LeastTime least = least_time(values, machine, {.room_bytes = room_bytes, .moves = {}});
    EXPECT_TRUE(least.ps) << "a plan where none should be";
    EXPECT_LE(least.ps.value_or(0), point.predicted_ps);
    longer += point.predicted_ps > frontier.bound_ps ? 1U : 0U;
  }
  return longer;
}

TEST(BoundProperty, RealPlansAreAmongAllPlans) {
  size_t longer = 0;
  for (uint64_t seed = 1; seed <= program_count(150); ++seed) {
    SCOPED_TRACE(seed);
    longer += expect_plans_among_all(tiny_program(seed, {.unit_bytes = 64}), seed);
  }
  EXPECT_GT(longer, 20U);
}

// Larger programs, with everything that random programs have.
TEST(BoundProperty, RealPlansAreAboveTheirBounds) {
  const Machine machine{.name = "unit", .launch_ps = 3, .tiers = {{.name = "device"}}};
  size_t above_compute = 0;
  for (uint64_t seed = 1; seed <= program_count(150); ++seed) {
    SCOPED_TRACE(seed);
    const Program program =
        random_program(seed, {.layers = 2 + static_cast<int32_t>(seed % 16), .unit_bytes = 64});
    const Frontier frontier = make_frontier(program, machine, {.seed = seed, .effort = 2});
    expect_valid(program, frontier);
    for (const Point& point : frontier.points) {
      EXPECT_LE(point.plan.certificate.bound_ps, point.predicted_ps);
      above_compute += point.plan.certificate.bound_ps > frontier.bound_ps ? 1U : 0U;
    }
  }
  EXPECT_GT(above_compute, 100U);
}

}  // namespace
}  // namespace fitstep

// Programs with values that may be held in fewer bytes: every plan is valid and leaves the bytes of
// the plain program, and packing never makes one slower.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/packing.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "fitstep/run/host_device.h"
#include "tests/programs/random_program.h"
#include "tests/programs/tiny_program.h"
#include "tests/programs/with_packs.h"
#include "tests/support/expect_plan.h"
#include "tests/support/plain_run.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

Machine test_machine(bool can_offload) {
  Machine machine = unit_machine();
  machine.tiers.resize(can_offload ? 2 : 1);
  machine.links.resize(can_offload ? 1 : 0);
  if (can_offload) {
    for (Rate* rate : {&machine.links[0].evict, &machine.links[0].prefetch}) {
      rate->alone_bytes_per_s = rate->both_bytes_per_s = kUnitBytes;
    }
  }
  return machine;
}

bool runs_optional_ops(const Program& program, const Plan& plan) {
  return std::ranges::any_of(plan.lane(Lane::Compute), [&](const Action& action) {
    return action.kind == Action::Kind::Run && program.ops[action.run.op.index()].is_optional;
  });
}

TEST(PackingProperty, PlansAreValidAndLeaveTheBytesOfThePlainProgram) {
  size_t packing = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const Program program =
        with_packs(random_program(seed, {.layers = 2 + static_cast<int32_t>(seed % 8)}), seed,
                   {.most = 1 + static_cast<int32_t>(seed % 6)});
    const Machine machine = test_machine(seed % 3 == 0);
    const Frontier frontier = make_frontier(program, machine, {.seed = seed, .effort = 2});
    const std::vector<Contents> plain = plain_contents(program);
    for (const Point& point : frontier.points) {
      constexpr int64_t kPlenty = int64_t{1} << 30;
      expect_valid(program, point.plan, {.capacity_bytes = {point.height_bytes, kPlenty, kPlenty}});
      EXPECT_GE(point.height_bytes, frontier.floor_bytes);
      EXPECT_GE(point.predicted_ps, frontier.bound_ps);
      EXPECT_GE(point.predicted_ps, point.plan.certificate.bound_ps);
      packing += runs_optional_ops(program, point.plan) ? 1U : 0U;
      const auto step = make_step(program, point.plan, std::make_shared<HostDevice>());
      EXPECT_TRUE(has_same_bytes(*step, plain));
    }
  }
  std::cout << packing << " plans pack\n";
  EXPECT_GT(packing, 20U);
}

std::optional<int64_t> time_of(const Outcome& outcome) {
  const auto* fits = std::get_if<Fits>(&outcome);
  if (fits == nullptr) return std::nullopt;
  return fits->plan.certificate.predicted_ps;
}

TEST(PackingProperty, PackingIsNeverSlowerAndOftenFaster) {
  size_t asked = 0;
  size_t faster = 0;
  const uint64_t count = std::getenv("FITSTEP_LONG") == nullptr ? 15 : 60;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE(seed);
    const Program program =
        with_packs(tiny_program(seed, {.most_ops = 9, .unit_bytes = kUnitBytes}), seed,
                   {.most = 3, .unit_bytes = kUnitBytes});
    const Machine machine = test_machine(seed % 2 == 0);
    const Reduced plain = reduce(program, order_with_optional(program), {});
    const int64_t floor = floor_bytes(program, {}, nullptr);
    const int64_t plain_floor = floor_bytes(plain.program, {}, nullptr);
    EXPECT_LE(floor, plain_floor);
    for (int64_t bytes = floor; bytes < plain_floor + 6 * kUnitBytes; bytes += kUnitBytes) {
      const auto packed_ps = time_of(make_plan(program, machine, {.capacity_bytes = bytes}));
      const auto plain_ps = time_of(make_plan(plain.program, machine, {.capacity_bytes = bytes}));
      if (plain_ps) {
        ASSERT_TRUE(packed_ps.has_value()) << bytes;
        EXPECT_LE(*packed_ps, *plain_ps) << bytes;
      }
      ++asked;
      faster += packed_ps && (!plain_ps || *packed_ps < *plain_ps) ? 1U : 0U;
    }
  }
  std::cout << asked << " budgets, " << faster << " faster or possible at all by packing\n";
  EXPECT_GT(faster * 20, asked);
}

}  // namespace
}  // namespace fitstep

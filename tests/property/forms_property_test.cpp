// More forms of an op never make a plan slower: compares programs whose ops have a default form and
// a fast form with much scratch with programs that have only one of the two.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "fitstep/base/random.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/programs/net_program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

struct Trio {
  Program slow;
  Program fast;
  Program both;
};

// Every second op in the mean: 50 .. 89 % of the time, with 1 .. 6 times its outputs as scratch.
Trio with_fast_forms(const Program& program) {
  Trio trio{.slow = program, .fast = program, .both = program};
  Random random(3);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    int64_t output_bytes = 0;
    for (const Write& write : op.forms[0].writes) {
      output_bytes += program.storages[write.storage.index()].size_bytes;
    }
    if (op.forms.size() != 1 || output_bytes == 0 || random.next() % 2 == 0) continue;
    Form form = op.forms[0];
    form.name = "fast";
    form.time_ps = form.time_ps / 100 * static_cast<int64_t>(50 + random.next() % 40);
    const int64_t scratch_bytes = output_bytes * static_cast<int64_t>(1 + random.next() % 6);
    form.requests.insert(form.requests.begin(),
                         {.size_bytes = scratch_bytes, .live = {.begin = 0, .end = 1}});
    trio.both.ops[i].forms.push_back(form);
    trio.fast.ops[i].forms = {std::move(form)};
  }
  return trio;
}

std::optional<int64_t> least_ps(const Program& program, const Machine& machine,
                                int64_t capacity_bytes) {
  const Outcome outcome =
      make_plan(program, machine, {.capacity_bytes = capacity_bytes, .policy = "recompute"});
  expect_valid(program, outcome, capacity_bytes);
  const Fits* fits = std::get_if<Fits>(&outcome);
  if (fits == nullptr) return std::nullopt;
  return fits->plan.certificate.predicted_ps;
}

// At shares of the bytes between the floor and all kept.
void expect_best_of_both(const Program& program) {
  const Trio trio = with_fast_forms(program);
  const Machine machine{.name = "unit", .tiers = {{.name = "device"}}};
  const Frontier kept = make_frontier(trio.slow, machine, {.policy = "none"});
  expect_valid(trio.slow, kept);
  const int64_t kept_bytes = kept.points.front().height_bytes;
  int64_t gained_ps = 0;
  for (const int64_t percent : {100, 80, 60, 40, 25}) {
    const int64_t capacity_bytes =
        kept.floor_bytes + (kept_bytes - kept.floor_bytes) / 100 * percent;
    const std::optional<int64_t> slow_ps = least_ps(trio.slow, machine, capacity_bytes);
    const std::optional<int64_t> fast_ps = least_ps(trio.fast, machine, capacity_bytes);
    const std::optional<int64_t> both_ps = least_ps(trio.both, machine, capacity_bytes);
    ASSERT_TRUE(slow_ps.has_value() && both_ps.has_value()) << percent;
    const int64_t least_ps = std::min(*slow_ps, fast_ps.value_or(*slow_ps));
    EXPECT_LE(*both_ps, least_ps) << percent;
    gained_ps += least_ps - *both_ps;
  }
  EXPECT_GT(gained_ps, 0);
}

TEST(FormsProperty, MoreOfThemAreNeverSlowerOnAChain) {
  expect_best_of_both(chain_program({.layers = 30}));
}

TEST(FormsProperty, MoreOfThemAreNeverSlowerInATransformer) {
  expect_best_of_both(gpt_program({.layers = 4}));
}

}  // namespace
}  // namespace fitstep

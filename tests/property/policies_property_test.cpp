// Properties of every published policy: its plans are valid, keep their bytes in any order of the
// lanes, and leave the bytes of plain execution on real memory.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/policies.h"
#include "fitstep/program/program.h"
#include "fitstep/report/pool_sizes.h"
#include "fitstep/simulate/simulator.h"
#include "tests/fakes/mock_device.h"
#include "tests/programs/layer_program.h"
#include "tests/programs/random_program.h"
#include "tests/support/byte_run.h"
#include "tests/support/expect_plan.h"
#include "tests/support/hash_step.h"
#include "tests/support/keep_all.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

// Convolutions, pools and matrix products of several sizes and speeds.
Program random_layers(uint64_t seed) {
  std::vector<LayerOfTest> layers;
  for (uint64_t i = 0; i < 4 + seed % 6; ++i) {
    const uint64_t mixed = (seed * 31 + i * 17) % 23;
    const OpKind kind = mixed % 5 == 4   ? OpKind::Matmul
                        : mixed % 3 == 2 ? OpKind::Pool
                                         : OpKind::Convolution;
    layers.push_back({.kind = kind,
                      .seconds = 1 + static_cast<int64_t>(mixed % 4),
                      .units = 1 + static_cast<int64_t>(mixed % 3),
                      .scratch_units = static_cast<int64_t>(mixed % 2)});
  }
  return layer_program(layers);
}

void expect_no_damage(const Program& program, const Plan& plan, uint64_t orders) {
  int64_t arena_bytes = plan.certificate.height_bytes;
  for (const int64_t bytes : limits_of(plan).capacity_bytes)
    arena_bytes = std::max(arena_bytes, bytes);
  for (uint64_t order = 0; order < orders; ++order) {
    EXPECT_EQ(damage(program, plan, {.arena_bytes = arena_bytes, .seed = order}), "");
  }
}

// Three steps on real memory, with copies that take any time; their number is the plan's.
std::vector<std::string> bytes_after(const Program& program, const Plan& plan) {
  constexpr int kSteps = 3;
  const auto device = std::make_shared<MockDevice>(MockOptions{.seed = 7});
  auto step = HashStep::make(program, plan, device);
  EXPECT_TRUE(step.has_value());
  (*step)->fill();
  for (int i = 0; i < kSteps; ++i) EXPECT_FALSE((*step)->step().has_value());
  const size_t copies = plan.lane(Lane::Evict).size() + plan.lane(Lane::Prefetch).size();
  EXPECT_EQ(device->copies(), kSteps * static_cast<int32_t>(copies));
  return (*step)->contents();
}

// The policy's plans with all the room there is, and with what it needs at least.
std::vector<Plan> plans_of(const Program& program, const char* policy) {
  std::vector<Plan> plans;
  const Frontier frontier = make_frontier(program, layer_machine(), {.policy = policy});
  for (const Point& point : frontier.points) plans.push_back(point.plan);
  EXPECT_FALSE(plans.empty());
  const Outcome low = make_plan(program, layer_machine(),
                                {.capacity_bytes = frontier.floor_bytes, .policy = policy});
  int64_t least_bytes = frontier.floor_bytes;
  if (const auto* gave_up = std::get_if<GaveUp>(&low)) least_bytes = gave_up->least_found_bytes;
  const Outcome fits =
      make_plan(program, layer_machine(), {.capacity_bytes = least_bytes, .policy = policy});
  EXPECT_TRUE(std::holds_alternative<Fits>(fits)) << least_bytes;
  if (const auto* found = std::get_if<Fits>(&fits)) plans.push_back(found->plan);
  return plans;
}

constexpr std::array<std::string_view, 5> kOfEachFamily = {"vdnn-all-m", "vdnn++-conv-p", "tf-swap",
                                                           "layrub", "recompute-cheap"};

void expect_sound(const Program& program, std::map<std::string, int64_t>& copies,
                  uint64_t orders = 4) {
  const std::vector<std::string> plain = bytes_after(program, keep_all(program));
  for (const Policy& policy : published_policies()) {
    const bool is_large = program.ops.size() > 300;  // Then one of each family is enough.
    if (is_large && std::ranges::find(kOfEachFamily, std::string_view(policy.name)) ==
                        std::ranges::end(kOfEachFamily)) {
      continue;
    }
    SCOPED_TRACE(policy.name);
    for (const Plan& plan : plans_of(program, policy.name)) {
      expect_valid(program, plan);
      expect_no_damage(program, plan, orders);
      EXPECT_EQ(bytes_after(program, plan), plain);
      copies[policy.name] += static_cast<int64_t>(plan.lane(Lane::Evict).size());
    }
  }
}

TEST(PoliciesProperty, PlansOfLayersAreSound) {
  std::map<std::string, int64_t> copies;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    expect_sound(random_layers(seed), copies);
  }
  for (const Policy& policy : published_policies()) {
    const std::string name = policy.name;
    const bool moves =
        policy.offloads && name.find("none") == std::string::npos && name != "layrub-intra";
    EXPECT_EQ(copies[name] > 0, moves) << name;
  }
}

TEST(PoliciesProperty, PlansOfAnyProgramAreSound) {
  std::map<std::string, int64_t> copies;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    const auto layers = 2 + static_cast<int32_t>(seed % 8);
    expect_sound(random_program(seed, {.layers = layers, .unit_bytes = 64}), copies);
  }
  EXPECT_GT(copies["layrub"], 0);
  EXPECT_GT(copies["tf-swap"], 0);
}

TEST(PoliciesProperty, PlansOfCapturedProgramsAreSound) {
  std::map<std::string, int64_t> copies;
  const std::string path = fmt::format("{}/tests/golden/unet.program", FITSTEP_SOURCE_DIR);
  expect_sound(program_of(read_file(path)), copies, 1);
  EXPECT_GT(copies["vdnn-all-m"], 0);
  EXPECT_GT(copies["vdnn++-conv-p"], 0);
}

// Seconds of a step that really runs, where every action takes as long as the machine says.
int64_t seconds_on_mock(const Program& program, const Plan& plan) {
  const Timeline timeline = simulate(program, plan, layer_machine());
  std::map<std::pair<Lane, int32_t>, int64_t> seconds;
  for (const Span& span : timeline.spans)
    seconds[{span.lane, span.position}] = (span.end_ps - span.begin_ps) / kPicosecondsPerSecond;
  const auto device = std::make_shared<MockDevice>(
      MockOptions{.ticks = [&](Lane lane, int32_t position) { return seconds[{lane, position}]; }});
  auto step = HashStep::make(program, plan, device);
  EXPECT_TRUE(step.has_value());
  (*step)->fill();
  EXPECT_FALSE((*step)->step().has_value());
  EXPECT_EQ(device->step_ticks(), timeline.total_ps / kPicosecondsPerSecond);
  return device->step_ticks();
}

// vDNN++'s demo network: pairs of a 1x1 layer, whose input takes longer to copy than it runs, and a
// 5x5 layer of 25 times the work, which could hide it. Waiting at the ends of layers costs 4 - 1
// seconds for each pair on the way forward; waiting late costs the 4 of the last copy, which begins
// behind the last layer.
TEST(PoliciesProperty, TheDemoNetworkIsFasterWithDeferredWaitsOnADeviceToo) {
  constexpr int64_t kPairs = 5;
  std::vector<LayerOfTest> layers = {{.seconds = 1, .units = 4}};
  for (int64_t i = 0; i < kPairs; ++i) {
    layers.push_back({.seconds = 1, .units = 4});
    layers.push_back({.seconds = 25, .units = 4});
  }
  const Program program = layer_program(layers);
  std::map<std::string, int64_t> seconds;
  for (const char* policy : {"vdnn-conv-p", "vdnn++-conv-p"}) {
    const Outcome made =
        make_plan(program, layer_machine(), {.capacity_bytes = 1 << 20, .policy = policy});
    ASSERT_TRUE(std::holds_alternative<Fits>(made));
    seconds[policy] = seconds_on_mock(program, std::get<Fits>(made).plan);
  }
  EXPECT_EQ(seconds["vdnn-conv-p"], seconds["vdnn++-conv-p"] + (4 - 1) * kPairs - 4);
}

// What an allocator would see of a plan with copies is never more than the plan's own peak.
TEST(PoliciesProperty, AllocatorsSeeNoMoreOfAPlanThanItsPeak) {
  std::vector<LayerOfTest> layers(9, {.seconds = 2, .units = 8});
  layers[4].seconds = 1;
  const Program program = layer_program(layers);
  int32_t plans = 0;
  for (const char* policy : {"vdnn-all-p", "vdnn++-all-p", "layrub", "offload"}) {
    for (const int64_t units : {24, 32, 48, 64}) {
      const Outcome outcome = make_plan(
          program, layer_machine(), {.capacity_bytes = units * kLayerUnitBytes, .policy = policy});
      const auto* fits = std::get_if<Fits>(&outcome);
      if (fits == nullptr) continue;
      const Timeline timeline = simulate(program, fits->plan, layer_machine());
      const PoolSizes sizes = pool_sizes(pool_requests(program, fits->plan, timeline));
      EXPECT_LE(sizes.expected_bytes, fits->plan.certificate.peak_bytes) << policy << " " << units;
      ++plans;
    }
  }
  EXPECT_GE(plans, 8);
}

}  // namespace
}  // namespace fitstep

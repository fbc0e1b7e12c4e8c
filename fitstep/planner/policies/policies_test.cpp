#include "fitstep/planner/policies/policies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"
#include "tests/programs/chain_program.h"
#include "tests/programs/layer_program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

constexpr int64_t kPlentyOfUnits = 1000;

Outcome outcome_of(const Program& program, const std::string& policy,
                   int64_t units = kPlentyOfUnits) {
  const int64_t capacity_bytes = units * kLayerUnitBytes;
  Outcome outcome =
      make_plan(program, layer_machine(), {.capacity_bytes = capacity_bytes, .policy = policy});
  expect_valid(program, outcome, capacity_bytes);
  return outcome;
}

Plan plan_of(const Program& program, const std::string& policy, int64_t units = kPlentyOfUnits) {
  const Outcome outcome = outcome_of(program, policy, units);
  EXPECT_TRUE(std::holds_alternative<Fits>(outcome)) << policy << " in " << units;
  return std::holds_alternative<Fits>(outcome) ? std::get<Fits>(outcome).plan : Plan{};
}

int64_t seconds(const Plan& plan) { return plan.certificate.predicted_ps / kPicosecondsPerSecond; }
int64_t peak_units(const Plan& plan) { return plan.certificate.peak_bytes / kLayerUnitBytes; }

int64_t evicted_units(const Plan& plan) {
  int64_t bytes = 0;
  for (const Action& action : plan.lane(Lane::Evict)) {
    bytes += plan.residencies[action.copy.source.index()].size_bytes;
  }
  return bytes / kLayerUnitBytes;
}

const std::string& name_of(const Program& program, const Plan& plan, const Action& action) {
  if (action.kind == Action::Kind::Run) return program.ops[action.run.op.index()].name;
  const StorageId storage = plan.residencies[action.copy.source.index()].storage;
  return program.storages[storage.index()].name;
}

// Its name, and when it starts.
std::vector<std::string> timeline(const Program& program, const Plan& plan, Lane lane) {
  std::vector<std::string> result;
  for (const Span& span : simulate(program, plan, layer_machine()).spans) {
    if (span.lane != lane || span.begin_ps == span.end_ps) continue;
    const Action& action = plan.lane(lane)[static_cast<size_t>(span.position)];
    result.push_back(name_of(program, plan, action) + "@" +
                     std::to_string(span.begin_ps / kPicosecondsPerSecond));
  }
  return result;
}

using Names = std::vector<std::string>;

bool is_of(const std::string& entry, const std::string& name) {
  return entry.starts_with(name + "@");
}

bool has(const Names& names, const std::string& name) {
  return std::ranges::any_of(names, [&](const std::string& it) { return is_of(it, name); });
}

Names without_times(Names names) {
  for (std::string& it : names) it.resize(it.find('@'));
  return names;
}

int64_t start_of(const Names& names, const std::string& name) {
  for (const std::string& it : names) {
    if (is_of(it, name)) return std::stoll(it.substr(name.size() + 1));
  }
  ADD_FAILURE() << "no " << name;
  return -1;
}

Names forward(const Program& program, const Plan& plan) {
  Names names = timeline(program, plan, Lane::Compute);
  std::erase_if(names, [](const std::string& it) { return !it.starts_with('f'); });
  return names;
}

// A layer of 1 second whose input takes 4 to copy, then one of 7 that could hide it.
Program pairs(int32_t count) {
  std::vector<LayerOfTest> layers = {{.seconds = 7, .units = 4}};
  for (int32_t i = 0; i < count; ++i) {
    layers.push_back({.seconds = 1, .units = 4});
    layers.push_back({.seconds = 7, .units = 4});
  }
  return layer_program(layers);
}

//   compute   |--- f1 7 ---|f2|.....|--- f3 7 ---|     layer 2 ends when y1 is evicted, at 11
//   evict                  |-- y1 --|-- y2 --|          y1 during layer 2, y2 during layer 3
TEST(Vdnn, EndsALayerWhenItsCopyHasEnded) {
  const Program program = pairs(1);
  const Plan plan = plan_of(program, "vdnn-all-p");
  EXPECT_EQ(timeline(program, plan, Lane::Evict), (Names{"y1@7", "y2@11"}));
  EXPECT_EQ(forward(program, plan), (Names{"f1@0", "f2@7", "f3@11"}));
}

//   compute   |--- f1 7 ---|f2|--- f3 7 ---|            nothing waits for y1
//   evict                     |-- y1 --|   |-- y2 --|   each after its last use
TEST(VdnnPlusPlus, LetsOpsRunAheadOfCopies) {
  const Program program = pairs(1);
  const Plan plan = plan_of(program, "vdnn++-all-p");
  EXPECT_EQ(timeline(program, plan, Lane::Evict), (Names{"y1@8", "y2@15"}));
  EXPECT_EQ(forward(program, plan), (Names{"f1@0", "f2@7", "f3@8"}));
}

// A pair copies for 8 s. Its quick layer hides 1 s of 4, the next all of 4: waiting by layer costs
// 3 s per pair in the forward part.
TEST(VdnnPlusPlus, SavesWhatEachQuickLayerWaits) {
  const Program program = pairs(5);
  const Plan by_layer = plan_of(program, "vdnn-conv-p");
  const Plan deferred = plan_of(program, "vdnn++-conv-p");
  EXPECT_EQ(forward(program, by_layer).back(), "f11@55");  // 7 + 5 x 4 + 4 x 7.
  EXPECT_EQ(forward(program, deferred).back(), "f11@40");  // 7 + 5 x 1 + 4 x 7.
  EXPECT_GT(seconds(by_layer), seconds(deferred) + 10);
}

// Copies of 2 s cannot keep up with layers of 1 s. If the first copy begins a second earlier,
// during the layer that uses its map, the step is a second shorter.
//
//   compute   |f1|f2|f3|f4|f5|f6|....
//   evict        |- y1 -|- y2 -|- y3 -|
TEST(VdnnPlusPlus, BeginsCopiesBesideTheLayerThatUsesAMap) {
  const Program program = layer_program(std::vector<LayerOfTest>(6, {.seconds = 1, .units = 2}));
  const Plan plan = plan_of(program, "vdnn++-conv-p");
  const Names gone = timeline(program, plan, Lane::Evict);
  ASSERT_GE(gone.size(), 3U);
  EXPECT_EQ((Names{gone[0], gone[1], gone[2]}), (Names{"y1@1", "y2@3", "y3@5"}));
  EXPECT_EQ(forward(program, plan).back(), "f6@5");
}

// With the least room that works, ops wait for bytes that copies have not freed yet.
TEST(VdnnPlusPlus, WaitsForRoomWhereThePoolIsFull) {
  const Program program = pairs(5);
  const Outcome too_small = outcome_of(program, "vdnn++-conv-p", 9);
  ASSERT_TRUE(std::holds_alternative<GaveUp>(too_small));
  const int64_t least = std::get<GaveUp>(too_small).least_found_bytes / kLayerUnitBytes;
  const Plan tight = plan_of(program, "vdnn++-conv-p", least);
  EXPECT_LE(peak_units(tight), least);
  EXPECT_GT(seconds(tight), seconds(plan_of(program, "vdnn++-conv-p")));
}

// Five convolutions of 1 second and 1 unit. Layer 5 reads y4, which is evicted last and prefetched
// first. Each layer prefetches for the next layer only.
//
//   compute    |dw5|dx5|dw4|dx4|dw3|dx3| ...
//   prefetch   |y3 |   |y2 |   |y1 |
TEST(Vdnn, FetchesNoFurtherThanTheNextConvolution) {
  const Program program = layer_program({{}, {}, {}, {}, {}});
  const Plan plan = plan_of(program, "vdnn-conv-p");
  const Names compute = timeline(program, plan, Lane::Compute);
  const Names fetched = timeline(program, plan, Lane::Prefetch);
  ASSERT_GE(fetched.size(), 3U);
  for (const auto& [map, beside] : std::vector<std::pair<std::string, std::string>>{
           {"y3", "dw5"}, {"y2", "dw4"}, {"y1", "dw3"}}) {
    EXPECT_GE(start_of(fetched, map), start_of(compute, beside)) << map;
    EXPECT_LE(start_of(fetched, map), start_of(compute, beside) + 1) << map;
  }
}

TEST(Vdnn, ConvKeepsWhatOnlyPoolsRead) {
  const Program program = layer_program({{}, {.kind = OpKind::Pool}, {}, {}, {}});
  const Names conv = timeline(program, plan_of(program, "vdnn-conv-p"), Lane::Evict);
  const Names all = timeline(program, plan_of(program, "vdnn-all-p"), Lane::Evict);
  EXPECT_FALSE(has(conv, "y1"));
  EXPECT_TRUE(has(conv, "y2"));
  EXPECT_TRUE(has(all, "y1"));
  EXPECT_TRUE(has(all, "y2"));
}

// Seven convolutions. x is the caller's, and no convolution reads y7:
//
//   all inputs     y1 y2 y3 y4 y5 y6
//   every second   y1    y3    y5
TEST(VdnnPlusPlus, AlternateTakesEverySecondInput) {
  const Program program = layer_program({{}, {}, {}, {}, {}, {}, {}});
  const Names all = timeline(program, plan_of(program, "vdnn++-conv-p"), Lane::Evict);
  const Names second = timeline(program, plan_of(program, "vdnn++-alternate-p"), Lane::Evict);
  EXPECT_EQ(without_times(all), (Names{"y1", "y2", "y3", "y4", "y5", "y6"}));
  EXPECT_EQ(without_times(second), (Names{"y1", "y3", "y5"}));
}

// (p) runs three layers forward, three weights' and two inputs' gradients in 8 s with 10 units of
// scratch, (m) in 16 s with none.
TEST(Vdnn, MemoryOptimalFormsAreSlowAndPerformanceOptimalOnesLarge) {
  const LayerOfTest layer{.scratch_units = 10};
  const Program program = layer_program({layer, layer, layer});
  const Plan small = plan_of(program, "vdnn-none-m");
  const Plan fast = plan_of(program, "vdnn-none-p");
  EXPECT_EQ(seconds(fast), 8);
  EXPECT_EQ(seconds(small), 16);
  EXPECT_EQ(peak_units(fast) - peak_units(small), 10);
}

// The first trial keeps everything with the fastest forms; later trials keep less and less.
TEST(Vdnn, DynTakesTheFirstTrialThatFits) {
  const LayerOfTest layer{.seconds = 2, .units = 4, .scratch_units = 4};
  const Program program = layer_program({layer, layer, layer, layer, layer, layer});
  const auto says = [&](int64_t units) {
    return plan_of(program, "vdnn-dyn", units).certificate.moves;
  };
  const int64_t none = peak_units(plan_of(program, "vdnn-none-p"));
  const int64_t conv = peak_units(plan_of(program, "vdnn-conv-p"));
  const int64_t least = peak_units(plan_of(program, "vdnn-all-m"));
  ASSERT_LT(least, conv);
  ASSERT_LT(conv, none);
  EXPECT_NE(says(none).find("keeps everything, fastest forms"), std::string::npos) << says(none);
  EXPECT_NE(says(conv).find("the inputs of convolutions ("), std::string::npos) << says(conv);
  EXPECT_NE(says(least).find("waits at the end of each layer"), std::string::npos) << says(least);
  const Outcome outcome = outcome_of(program, "vdnn-dyn", 9);
  EXPECT_FALSE(std::holds_alternative<Fits>(outcome));
}

// Six maps of 1 unit; the budget has room for some: the oldest leave, each comes back in time.
TEST(TfSwap, OffloadsTheOldestThatAreTooMuch) {
  const Program program = layer_program({{}, {}, {}, {}, {}, {}, {}});
  const int64_t kept = peak_units(plan_of(program, "vdnn-none-p"));
  EXPECT_EQ(evicted_units(plan_of(program, "tf-swap", kept)), 0);
  const Plan plan = plan_of(program, "tf-swap", kept - 2);
  const Names gone = timeline(program, plan, Lane::Evict);
  ASSERT_FALSE(gone.empty());
  EXPECT_TRUE(has(gone, "y1"));
  EXPECT_FALSE(has(gone, "y6"));
  EXPECT_LT(evicted_units(plan), 6);
}

//   compute    ... |dw3|dx3|dw2|        a copy of 1 s: it starts with the last op from whose start
//   prefetch           |y1 |            there is time for it, though there would be room before
TEST(TfSwap, FetchesAsLateAsTheEstimateAllows) {
  const Program program = layer_program({{}, {}, {}, {}, {}, {}, {}});
  const int64_t kept = peak_units(plan_of(program, "layrub-intra"));
  const Plan plan = plan_of(program, "tf-swap", kept - 1);
  const Names compute = timeline(program, plan, Lane::Compute);
  const Names fetched = timeline(program, plan, Lane::Prefetch);
  ASSERT_TRUE(has(fetched, "y1"));
  EXPECT_EQ(start_of(fetched, "y1"), start_of(compute, "dw2") - 1);
}

// 24 layers more are 24 activations more, of a unit each, where one address serves a layer's
// activation and its gradient. Where activations leave, the depth does not matter.
TEST(Layrub, NeedsTheSameForAnyDepth) {
  const auto peak = [](size_t depth, const char* policy) {
    return peak_units(plan_of(layer_program(std::vector<LayerOfTest>(depth)), policy));
  };
  for (const char* policy : {"layrub", "layrub-inter"}) {
    EXPECT_EQ(peak(8, policy), peak(32, policy)) << policy;
    EXPECT_LT(peak(8, policy), peak(8, "layrub-intra")) << policy;
  }
  EXPECT_EQ(peak(32, "layrub-intra") - peak(8, "layrub-intra"), 24);
}

// A convolution whose input has 4 units: dx is 4 and its own gradient 1. Where the input was, dx
// may lie, unless the input is held to the layer's end: 1 + 4 units against 1 + 4 + 4. (What a ReLU
// has made is held by the ReLU in any case.)
TEST(Layrub, WritesGradientsOverActivations) {
  const Program program = layer_program({{}, {.kind = OpKind::Pool, .units = 4}, {}});
  EXPECT_EQ(peak_units(plan_of(program, "layrub-inter")), 1 + 4 + 4);     // At dx3.
  EXPECT_EQ(peak_units(plan_of(program, "vdnn-none-p")), 1 + 4 + 4 + 1);  // With y1.
  EXPECT_EQ(peak_units(plan_of(program, "layrub")), 4 + 1 + 1);  // At dr3: y2, y3 and its gradient.
  EXPECT_EQ(peak_units(plan_of(program, "layrub-intra")), 4 + 1 + 1 + 1);  // With y1.
}

// The results of pools are recomputed, the results of convolutions are kept.
TEST(RecomputeCheap, RecomputesOnlyCheapOps) {
  const LayerOfTest pool{.kind = OpKind::Pool};
  const Program program = layer_program({{}, pool, {}, pool, {}, pool, {}});
  const Plan plan = plan_of(program, "recompute-cheap");
  std::vector<int32_t> runs(program.ops.size(), 0);
  for (const Action& action : plan.lane(Lane::Compute)) ++runs[action.run.op.index()];
  int32_t again = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i] == 1) continue;
    EXPECT_EQ(program.ops[i].kind, OpKind::Pool) << program.ops[i].name;
    ++again;
  }
  EXPECT_GT(again, 0);
  EXPECT_EQ(evicted_units(plan), 0);
}

TEST(Policies, SayWhatTheyDidWhereThereAreNoConvolutions) {
  const Program program = chain_program({.layers = 4});
  for (const char* policy : {"vdnn-conv-p", "vdnn-all-m", "vdnn++-alternate-p"}) {
    const Plan plan = plan_of(program, policy);
    EXPECT_NE(plan.certificate.moves.find("keeps everything: there is no convolution"),
              std::string::npos)
        << plan.certificate.moves;
    EXPECT_TRUE(plan.lane(Lane::Evict).empty());
  }
}

TEST(Policies, SayHowMuchTheyNeedWhereTheyDoNotFit) {
  const Program program = layer_program(std::vector<LayerOfTest>(10));
  const int64_t most = peak_units(plan_of(program, "vdnn-none-p"));
  const Outcome outcome = outcome_of(program, "vdnn-none-p", most - 1);
  ASSERT_TRUE(std::holds_alternative<GaveUp>(outcome));
  EXPECT_EQ(std::get<GaveUp>(outcome).least_found_bytes, most * kLayerUnitBytes);
}

TEST(Policies, KeepEverythingWhereTheHostHasNoRoom) {
  Machine machine = layer_machine();
  machine.tiers[1].capacity_bytes = kLayerUnitBytes;
  const Program program = layer_program(std::vector<LayerOfTest>(10));
  for (const Policy& policy : published_policies()) {
    SCOPED_TRACE(policy.name);
    const int64_t capacity_bytes = kPlentyOfUnits * kLayerUnitBytes;
    const Outcome outcome =
        make_plan(program, machine, {.capacity_bytes = capacity_bytes, .policy = policy.name});
    ASSERT_TRUE(std::holds_alternative<Fits>(outcome));
    const Plan& plan = std::get<Fits>(outcome).plan;
    expect_valid(program, plan, {.capacity_bytes = {capacity_bytes, kLayerUnitBytes}});
    EXPECT_LE(evicted_units(plan), 1);
  }
}

TEST(Policies, AreNamedAndKnown) {
  EXPECT_EQ(find_policy("vdnn-all"), nullptr);
  for (const Policy& policy : published_policies()) {
    EXPECT_EQ(find_policy(policy.name), &policy);
    EXPECT_EQ(std::ranges::count(policy_names(), std::string_view(policy.name)), 1);
  }
}

}  // namespace
}  // namespace fitstep

#include "tests/support/good_plans.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/programs/random_program.h"
#include "tests/programs/tiny_program.h"

namespace fitstep {
namespace {

constexpr uint64_t kMostSeeds = 5000;
constexpr size_t kSmallActions = 12;  // Of a lane; plans of more are a third of a mix at most.
constexpr size_t kMostOfProgram = 2;  // Plans of one program and machine.

struct Mix {
  const char* policy;
  bool recomputes;
  bool copies;
};

constexpr std::array<Mix, 4> kMixes = {{{"none", false, false},
                                        {"recompute", true, false},
                                        {"offload", false, true},
                                        {"auto", true, true}}};

Machine two_tiers(uint64_t seed, int64_t bytes_per_s) {
  Machine machine = unit_machine();
  machine.tiers = {{.name = "device"}, {.name = "host"}};
  const Rate rate{.alone_bytes_per_s = bytes_per_s << seed % 4,
                  .both_bytes_per_s = bytes_per_s << seed % 4};
  machine.links = {{.upper = kDeviceTier, .evict = rate, .prefetch = rate}};
  return machine;
}

class Collector {
 public:
  Collector(const Mix& mix, size_t count) : mix_(mix), count_(count) {}

  size_t size() const { return made_.size(); }
  bool is_full() const { return made_.size() >= count_; }

  bool add(const std::string& name, const Program& program, Plan plan) {
    const bool is_large = mix_.copies && plan.lane(Lane::Compute).size() > kSmallActions;
    if (is_full() || !is_of_mix(program, plan)) return false;
    if (is_large && large_ >= count_ / 3) return false;
    large_ += is_large ? 1U : 0U;
    made_.push_back({fmt::format("{} {}", mix_.policy, name), program, std::move(plan)});
    return true;
  }

  // Of a large program, in the middle between the floor and what keeping all needs.
  void add_golden(const Program& program) {
    const Machine machine = two_tiers(0, int64_t{1} << 30);
    const Frontier kept = make_frontier(program, machine, {.policy = "none"});
    const int64_t middle_bytes = (kept.floor_bytes + kept.points.front().height_bytes) / 2;
    for (const int64_t capacity_bytes : {middle_bytes, kept.points.front().height_bytes}) {
      Outcome made = make_plan(
          program, machine, {.capacity_bytes = capacity_bytes, .effort = 1, .policy = mix_.policy});
      auto* fits = std::get_if<Fits>(&made);
      if (fits != nullptr && add(program.name, program, std::move(fits->plan))) return;
    }
  }

  void add_all(const std::string& name, const Program& program, const Machine& machine) {
    if (is_full()) return;
    Frontier frontier = make_frontier(program, machine, {.effort = 2, .policy = mix_.policy});
    size_t added = 0;
    for (Point& point : frontier.points) {
      if (added == kMostOfProgram) return;
      added += add(name, program, std::move(point.plan)) ? 1U : 0U;
    }
  }

  std::vector<GoodPlan> take() && { return std::move(made_); }

 private:
  bool is_of_mix(const Program& program, const Plan& plan) const {
    size_t runs = 0;
    for (const Action& action : plan.lane(Lane::Compute)) {
      runs += action.kind == Action::Kind::Run ? 1U : 0U;
    }
    const bool recomputes = runs > program.ops.size();
    const bool copies = !plan.lane(Lane::Evict).empty();
    return recomputes == mix_.recomputes && copies == mix_.copies;
  }

  const Mix& mix_;
  size_t count_;
  size_t large_ = 0;
  std::vector<GoodPlan> made_;
};

}  // namespace

std::vector<GoodPlan> good_plans(const std::vector<Program>& golden, size_t count) {
  std::vector<GoodPlan> all;
  for (const Mix& mix : kMixes) {
    Collector collector(mix, count);
    for (const Program& program : golden) collector.add_golden(program);
    for (uint64_t seed = 0; seed < 24; ++seed) {
      if (collector.size() > count / 3) break;
      const auto layers = static_cast<int32_t>(2 + seed % 3);
      const Program program = chain_program({.layers = layers, .with_weights = seed % 2 == 0});
      collector.add_all(fmt::format("chain {}", seed), program,
                        two_tiers(seed / 6, 2 + static_cast<int64_t>(seed % 5) * 8));
    }
    for (uint64_t seed = 0; seed < kMostSeeds && !collector.is_full(); ++seed) {
      const bool is_longer = mix.copies ? seed % 8 == 0 : seed % 2 == 0;
      const int32_t layers = is_longer ? 5 : 2;
      collector.add_all(fmt::format("random {}", seed),
                        random_program(seed, {.layers = layers, .most_bytes = 90}),
                        two_tiers(seed, 4));
      if (!mix.copies) continue;  // Few random ones are small, and tiny ones draw no numbers.
      collector.add_all(fmt::format("tiny {}", seed),
                        tiny_program(seed, {.most_ops = 9, .unit_bytes = 64}), two_tiers(seed, 32));
    }
    for (GoodPlan& plan : std::move(collector).take()) all.push_back(std::move(plan));
  }
  return all;
}

}  // namespace fitstep

// `fitstep plan` and compile() give the same answer for a program and a budget.
//
// compile() names the homes of all its programs, in the order in which it came to know them; the
// command has a program alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/command.h"
#include "fitstep/base/random.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/budget.h"
#include "fitstep/planner/ask.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/programs/random_program.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

constexpr uint64_t kDoorSeeds = 12;

Machine machine_for(uint64_t seed) {
  const Rate rate{.alone_bytes_per_s = 100, .both_bytes_per_s = 100};
  Machine machine{.name = "random", .tiers = {{.name = "device"}}};
  if (seed % 3 == 0) return machine;
  machine.tiers.push_back({.name = "host", .capacity_bytes = seed % 3 == 1 ? 1 << 20 : 4096});
  machine.links = {{.upper = kDeviceTier, .evict = rate, .prefetch = rate}};
  return machine;
}

BudgetAnswer by_compile(const Program& program, const Machine& machine, uint64_t seed,
                        int64_t budget_bytes) {
  BudgetQuestion question{.programs = {{.program = &program}},
                          .places = {.homes = homes_of(program)},
                          .budget_bytes = budget_bytes,
                          .external_bytes = external_bytes(program),
                          .alignment_bytes = program.alignment_bytes,
                          .machine_for = [&](int64_t) { return machine; },
                          .may_have_homes_on_disk = true,
                          .request = {.effort = 1}};
  Random random(seed);
  std::vector<SharedHome>& homes = question.places.homes;
  for (size_t i = homes.size(); i > 1; --i) std::swap(homes[i - 1], homes[random.next() % i]);
  return ask(question);
}

void expect_same(const nlohmann::json& said, const BudgetAnswer& answer) {
  const auto* refusal = std::get_if<Refusal>(&answer);
  if (refusal == nullptr) {
    EXPECT_EQ(said["outcome"], "fits");
    EXPECT_EQ(said["question"]["capacity_bytes"], std::get<Fitting>(answer).capacity_bytes);
    return;
  }
  EXPECT_EQ(said["outcome"], refusal->is_proven() ? "too small" : "gave up");
  EXPECT_EQ(said["floor_budget_bytes"], refusal->floor_budget_bytes);
  EXPECT_EQ(said.value("least_found_budget_bytes", int64_t{0}),
            refusal->least_budget_bytes.value_or(0));
}

TEST(DoorsProperty, TheCommandAndCompileGiveTheSameAnswer) {
  int32_t refused = 0;
  for (uint64_t seed = 1; seed <= kDoorSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const Program program = random_program(seed, {.layers = 5, .unit_bytes = 64});
    const Machine machine = machine_for(seed);
    const std::string program_path = write_file("random.program", print_program(program));
    const std::string machine_path = write_file("random.json", print_machine(machine));
    int64_t all_bytes = 0;
    for (const Storage& storage : program.storages) all_bytes += storage.size_bytes;
    for (int64_t percent = 10; percent <= 110; percent += 20) {
      const int64_t budget_bytes = all_bytes * percent / 100;
      const Answer said = run_command({"plan", program_path, "--machine", machine_path, "--budget",
                                       std::to_string(budget_bytes), "--effort", "1", "--json"});
      ASSERT_NE(said.code, ExitCode::BadInput) << said.error;
      const BudgetAnswer answer = by_compile(program, machine, seed, budget_bytes);
      expect_same(nlohmann::json::parse(said.text), answer);
      refused += std::holds_alternative<Refusal>(answer) ? 1 : 0;
    }
  }
  EXPECT_GT(refused, 12);  // The budgets are worth the test.
}

}  // namespace
}  // namespace fitstep

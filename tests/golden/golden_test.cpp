// Golden programs: files in this folder, with their totals. A changed number is a reviewed diff.
//
// mlp, gpt, unet and lstm were captured by tests/torch/golden_programs.py. A program's text here is
// also a promise to users: files that this release wrote stay readable.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/plan_file.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/programs/pyramid.h"
#include "tests/programs/random_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"

namespace fitstep {
namespace {

std::string read_source(const std::string& path) {
  std::ifstream file(std::string(FITSTEP_SOURCE_DIR) + "/" + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string read_golden(const std::string& name) { return read_source("tests/golden/" + name); }

// What stands between the first two lines of three backquotes.
std::string example_in(const std::string& document) {
  const std::string text = read_source(document);
  const size_t begin = text.find("```\n") + 4;
  return text.substr(begin, text.find("```", begin) - begin);
}

struct Golden {
  std::string name;
  std::string hash;
  int64_t plain_peak_bytes = 0;
  int64_t keep_all_bytes = 0;
  int64_t floor_bytes = 0;
  int64_t least_bytes = 0;  // The lowest height that the planner finds,
  int64_t extra_ps = 0;     // and what recomputing costs there.
};

class GoldenProgram : public testing::TestWithParam<Golden> {};

TEST_P(GoldenProgram, IsReadableAndHasItsTotals) {
  const std::string text = read_golden(GetParam().name + ".program");
  const Result<Program> program = parse_program(text);
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_EQ(print_program(*program), text);
  EXPECT_EQ(hash_program(*program), GetParam().hash);
  EXPECT_EQ(plain_peak_bytes(*program), GetParam().plain_peak_bytes);
  EXPECT_EQ(peak_bytes(*program, /*with_external=*/false), GetParam().keep_all_bytes);
  const Frontier frontier = make_frontier(*program, unit_machine(), {.policy = "recompute"});
  EXPECT_EQ(frontier.floor_bytes, GetParam().floor_bytes);
  const Point& least = frontier.points.back();
  EXPECT_EQ(least.height_bytes, GetParam().least_bytes);
  EXPECT_EQ(least.predicted_ps - frontier.points.front().predicted_ps, GetParam().extra_ps);
  expect_valid(*program, least.plan);
}

INSTANTIATE_TEST_SUITE_P(
    Files, GoldenProgram,
    testing::Values(
        Golden{"pyramid", "4796d62d74c68022", 4, 3, 2, 129, 0},
        Golden{"random", "28aa5bee9cde17c7", 46976, 46912, 41728, 41728, 8000000000000},
        Golden{"mlp", "9580c7904a75e98e", 5210316, 4812488, 3366080, 3366080, 643056000},
        Golden{"gpt", "1d26d901c363f004", 4698156, 4689960, 1296256, 1465856, 8743066000},
        Golden{"unet", "bdcacebb9b83acfc", 3047604, 2900144, 1628680, 1647872, 23349856000},
        Golden{"lstm", "70135066d0108499", 2655544, 2647348, 1559160, 1564224, 555536000}),
    [](const auto& golden) { return golden.param.name; });

TEST(Golden, PyramidIsTheOneOfTheTests) { EXPECT_EQ(read_golden("pyramid.program"), kPyramid); }

// The dice must fall the same way on every platform, or a failing seed cannot be passed on.
TEST(Golden, RandomProgramsAreTheSameEverywhere) {
  EXPECT_EQ(read_golden("random.program"), print_program(random_program(7, {.unit_bytes = 64})));
}

TEST(Golden, PlanIsReadableAndValid) {
  const std::string text = read_golden("pyramid.plan");
  const Result<Plan> plan = parse_plan(text);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_EQ(print_plan(*plan), text);
  const Program program = parse_program(kPyramid).value();
  const std::vector<Fault> faults = verify(program, *plan, limits_of(*plan));
  EXPECT_TRUE(faults.empty()) << faults.front().message;
}

TEST(Golden, ExamplesInTheDocsAreAProgramAndItsPlan) {
  const Result<Program> program = parse_program(example_in("docs/reference/program-format.md"));
  ASSERT_TRUE(program.has_value()) << program.error().message;
  const Result<Plan> plan = parse_plan(example_in("docs/reference/plan-format.md"));
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const std::vector<Fault> faults = verify(*program, *plan, limits_of(*plan));
  EXPECT_TRUE(faults.empty()) << faults.front().message;
}

}  // namespace
}  // namespace fitstep

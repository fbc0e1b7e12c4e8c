#include "cli/verbs/compare.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/text.h"
#include "tests/programs/layer_program.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

std::vector<std::string> command(const std::string& verb, int64_t units,
                                 std::vector<std::string> more) {
  const Program program = layer_program(std::vector<LayerOfTest>(8));
  std::vector<std::string> arguments = {
      verb,         write_file("compare.program", print_program(program)),
      "--capacity", std::to_string(units * kLayerUnitBytes),
      "--machine",  write_file("compare.json", print_machine(layer_machine()))};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(CompareVerb, ShowsEveryPolicyThatIsAskedFor) {
  const Answer answer =
      run_command(command("compare", 8, {"--policy", "vdnn-none-p,layrub,auto", "--json"}));
  ASSERT_EQ(answer.code, ExitCode::Yes) << answer.error;
  const auto json = nlohmann::json::parse(answer.text).at("policies");
  ASSERT_EQ(json.size(), 3U);
  // Eight maps and a gradient are one too many; what leaves comes back.
  EXPECT_EQ(json.at(0).at("policy"), "vdnn-none-p");
  EXPECT_EQ(json.at(0).at("fits"), false);
  EXPECT_EQ(json.at(1).at("fits"), true);
  EXPECT_EQ(json.at(1).at("evicted_bytes"), json.at(1).at("prefetched_bytes"));
  EXPECT_GT(json.at(1).at("evicted_bytes"), 0);
  const auto host = json.at(1).at("host_use");
  EXPECT_GT(host.at("most_bytes"), 0);
  EXPECT_LE(host.at("most_bytes"), json.at(1).at("host_bytes"));
  EXPECT_EQ(host.at("most_coded_bytes"), host.at("most_bytes"));  // No storage has a code here.
  EXPECT_LE(json.at(2).at("step_ps"), json.at(1).at("step_ps"));
  EXPECT_GE(json.at(1).at("pool").at("best_fit_bytes"), json.at(1).at("pool").at("expected_bytes"));
}

TEST(CompareVerb, MapsBytesOverTime) {
  const Answer answer =
      run_command(command("compare", 99, {"--policy", "vdnn-none-p", "--json", "--map"}));
  const auto json = nlohmann::json::parse(answer.text).at("policies").at(0);
  const auto ends = json.at("map").at("end_ps");
  EXPECT_EQ(ends.back(), json.at("step_ps"));
  EXPECT_EQ(json.at("map").at("bytes").at("maps").size(), ends.size());
}

TEST(CompareVerb, PrintsATable) {
  const Answer answer = run_command(command("compare", 8, {}));
  EXPECT_TRUE(contains(answer.text, "vdnn++-dyn")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "vdnn-none-p        needs ")) << answer.text;
}

// Eight maps and a gradient are kept without holes, 9 x 64 B = 576 B, and no op waits.
TEST(CompareVerb, ShowsTimeOverBoundAndHeightOverPeak) {
  const Answer answer = run_command(command("compare", 99, {"--policy", "vdnn-none-p"}));
  EXPECT_TRUE(contains(answer.text, "step /bound       peak height")) << answer.text;
  EXPECT_TRUE(contains(answer.text, " 1.000x      576 B 1.000x ")) << answer.text;
}

TEST(CompareVerb, RefusesUnknownPoliciesByNamingTheKnown) {
  const Answer answer = run_command(command("compare", 8, {"--policy", "auto,vdnn"}));
  EXPECT_EQ(answer.code, ExitCode::BadInput);
  EXPECT_TRUE(contains(answer.error, "vdnn-dyn")) << answer.error;
}

TEST(PlanVerb, SaysHowMuchAPolicyMissesAndWhetherAutoFits) {
  const Answer answer = run_command(command("plan", 8, {"--policy", "vdnn-none-p"}));
  EXPECT_EQ(answer.code, ExitCode::No);
  EXPECT_TRUE(contains(answer.text,
                       "vdnn-none-p needs 64 B more than the arena has; auto finds a "
                       "plan"))
      << answer.text;
}

}  // namespace
}  // namespace fitstep

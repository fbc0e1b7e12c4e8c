// The command line, called as a function, on files made here.
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/plan_file.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/programs/pyramid.h"
#include "tests/support/keep_all.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

Plan pyramid_plan() { return keep_all(parse_program(kPyramid).value()); }

TEST(Show, DrawsThePyramid) {
  const Answer answer = run_command({"show", pyramid_file()});
  EXPECT_EQ(answer.code, ExitCode::Yes) << answer.error;
  EXPECT_TRUE(contains(answer.text,
                       "          3 B |  ##\n"
                       "          2 B | ####\n"
                       "          1 B |######\n"
                       "              +------\n"))
      << answer.text;
  EXPECT_TRUE(contains(answer.text, "plain peak               4 B")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "keep all                 3 B")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "matmul                 6    6.000000")) << answer.text;
}

TEST(Show, PrintsTheSameNumbersAsJson) {
  const Answer answer = run_command({"show", pyramid_file(), "--json"});
  ASSERT_EQ(answer.code, ExitCode::Yes) << answer.error;
  const auto json = nlohmann::json::parse(answer.text);
  EXPECT_EQ(json.at("plain_peak_bytes"), 4);
  EXPECT_EQ(json.at("keep_all_bytes"), 3);
  EXPECT_EQ(json.at("live_bytes"), (std::vector<int64_t>{1, 2, 3, 3, 2, 1}));
  EXPECT_EQ(json.at("hash"), hash_program(parse_program(kPyramid).value()));
  EXPECT_LE(json.at("floor_bytes"), 3);
}

TEST(Show, OfAProgramWithoutOps) {
  const std::string path = write_file("none", "fitstep program 1\nend calls 0 storages 0 ops 0\n");
  const Answer answer = run_command({"show", path});
  EXPECT_EQ(answer.code, ExitCode::Yes) << answer.error;
  EXPECT_TRUE(contains(answer.text, "no bytes are ever live")) << answer.text;
}

TEST(Show, CountsRecomputesOfAPlan) {
  Plan plan = pyramid_plan();
  plan.lane(Lane::Compute).push_back(plan.lane(Lane::Compute).front());  // Op 0 once more.
  const Answer text = run_command({"show", plan_file(plan)});
  EXPECT_EQ(text.code, ExitCode::Yes) << text.error;
  EXPECT_TRUE(contains(text.text, "7 op runs, 1 of them recompute\n")) << text.text;
  const Answer answer = run_command({"show", plan_file(plan), "--json"});
  const auto json = nlohmann::json::parse(answer.text);
  EXPECT_EQ(json.at("runs"), 7);
  EXPECT_EQ(json.at("recomputes"), 1);
  EXPECT_EQ(json.at("certificate").at("peak_bytes"), plan.certificate.peak_bytes);
}

TEST(Verify, AcceptsAGoodPlanWithinWhatItWasMadeFor) {
  const Answer answer = run_command({"verify", plan_file(pyramid_plan()), pyramid_file()});
  EXPECT_EQ(answer.code, ExitCode::Yes) << answer.text << answer.error;
  EXPECT_TRUE(answer.text.starts_with("valid: height ")) << answer.text;
}

TEST(Verify, ReportsFaultsWithinLessThanThat) {
  const std::string plan = plan_file(pyramid_plan());
  const Answer text = run_command({"verify", plan, pyramid_file(), "--capacity", "1"});
  EXPECT_EQ(text.code, ExitCode::No) << text.error;
  EXPECT_TRUE(text.text.starts_with("not valid within 1 B: ")) << text.text;
  const Answer answer = run_command({"verify", plan, pyramid_file(), "--capacity=1", "--json"});
  EXPECT_EQ(answer.code, ExitCode::No) << answer.error;
  const auto json = nlohmann::json::parse(answer.text);
  EXPECT_EQ(json.at("valid"), false);
  EXPECT_EQ(json.at("faults").at(0).at("kind"), to_string(FaultKind::OverCapacity));
}

TEST(Verify, ReportsAPlanForAnotherProgram) {
  Program program = parse_program(kPyramid).value();
  program.ops.back().must_not_move = true;
  const std::string other = write_file("other.program", print_program(program));
  const Answer answer = run_command({"verify", plan_file(pyramid_plan()), other});
  EXPECT_EQ(answer.code, ExitCode::No) << answer.error;
  EXPECT_TRUE(contains(answer.text, to_string(FaultKind::WrongProgram))) << answer.text;
}

TEST(Command, RefusesBadInputWithTheFileInTheSentence) {
  const std::string program = pyramid_file();
  const std::string plan = plan_file(pyramid_plan());
  const std::string cut = write_file("cut.program", kPyramid.substr(0, 100));
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{"show", "/no/such/file"}, "cannot open /no/such/file: No such file"},
      {{"show", testing::TempDir()}, " is a folder"},
      {{"show", write_file("empty", "")}, " is empty"},
      {{"show", write_file("text", "hello")}, ": neither a program"},
      {{"show", cut}, cut + ": cannot read the program file"},
      {{"verify", program, plan}, program + " is a program file; give a plan file in its place"},
      {{"verify", plan, plan}, plan + " is a plan file; give a program file in its place"},
      {{"verify", plan, program, "--capacity", "6 Gibi"}, "\"Gibi\" is not a unit"},
      {{"plan", program, "--budget", "4B", "--seed", "-1"}, "--seed: -1 is not a whole number"},
      {{"plan", program, "--budget", "4B", "--seed", "1.5"}, "--seed: 1.5 is not a whole number"},
      {{"layout", plan, "--seed", "-1"}, "--seed: -1 is not a whole number"},
      {{"plan", program, "--budget", "4B", "--time-limit", "nan"},
       "--time-limit: nan is not a number from 0 to 86400"},
      {{"simulate", plan, program, "--rate-factor", "nan"},
       "--rate-factor: nan is not a number from 0.001 to 1000"},
      {{"simulate", plan, program, "--rate-factor", "-1"}, "--rate-factor: -1 is not a number"},
      {{"simulate", plan, program, "--sweep", "--durations", "0.5..1"},
       "--durations excludes --sweep"},
      {{"simulate", plan, program, "--sweep", "--rate-factor", "1"},
       "--rate-factor excludes --sweep"},
      {{"verify", plan}, "program is required"},
      {{"show"}, "file is required"},
      {{"show", program, "--seed"}, "not expected: --seed; see fitstep show --help"},
      {{"shew", program}, "fitstep: shew is not a verb; the verbs are plan, compare, curve, "},
      {{}, "fitstep: no verb given; the verbs are plan, compare, curve, "},
  };
  for (const Case& bad : cases) {
    const Answer answer = run_command(bad.arguments);
    EXPECT_EQ(answer.code, ExitCode::BadInput) << bad.message;
    EXPECT_TRUE(contains(answer.error, bad.message)) << answer.error;
    EXPECT_TRUE(answer.error.starts_with("fitstep: ")) << answer.error;
    EXPECT_EQ(answer.error.find('\n'), answer.error.size() - 1) << "one line: " << answer.error;
    EXPECT_EQ(answer.text, "");
  }
}

TEST(Command, SaysItsVersion) {
  const Answer answer = run_command({"--version"});
  EXPECT_EQ(answer.code, ExitCode::Yes);
  EXPECT_EQ(answer.text, "fitstep " FITSTEP_VERSION "\n");
}

TEST(Command, HelpsWithAnExamplePerVerb) {
  EXPECT_FALSE(verb_names().empty());
  for (const std::string& verb : verb_names()) {
    const Answer answer = run_command({verb, "--help"});
    EXPECT_EQ(answer.code, ExitCode::Yes);
    EXPECT_TRUE(contains(answer.text, "Example:\n  fitstep " + verb)) << answer.text;
  }
  EXPECT_TRUE(contains(run_command({"--help"}).text, "show"));
}

}  // namespace
}  // namespace fitstep

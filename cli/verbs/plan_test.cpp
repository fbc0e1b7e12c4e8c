// `fitstep plan` and `fitstep curve`, on a chain of nine layers of 4 KiB.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "fitstep/base/interval.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/programs/chain_program.h"
#include "tests/programs/pyramid.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

constexpr int64_t kUnit = 4096;

Program test_program() {
  Program program = chain_program({.layers = 9, .unit_bytes = kUnit});
  for (size_t i = 0; i < program.ops.size(); ++i) {
    program.ops[i].source = {.file = "net.py", .line = static_cast<int32_t>(i)};
    program.ops[i].flops = 700'000'000'000;  // A second at 0.7 of 1 TFLOPS.
  }
  const std::vector<Interval> held = lifetimes(program);
  for (size_t i = 0; i < held.size(); ++i) program.storages[i].recorded = held[i];
  return program;
}

std::string chain_file() { return write_file("chain.program", print_program(test_program())); }

std::string machine_file(const Machine& machine) {
  return write_file("machine.json", print_machine(machine));
}

nlohmann::json json_of(const Answer& answer) {
  EXPECT_EQ(answer.error, "");
  return nlohmann::json::parse(answer.text, nullptr, /*allow_exceptions=*/false);
}

TEST(PlanVerb, WritesAPlanThatVerifies) {
  const std::string plan = testing::TempDir() + "fitstep_cli_test_chain.plan";
  const Answer answer = run_command({"plan", chain_file(), "--budget", "40KiB", "--output", plan});
  ASSERT_EQ(answer.code, ExitCode::Yes) << answer.text << answer.error;
  EXPECT_TRUE(answer.text.starts_with("fits: ")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "40.00 KiB  everything that the step holds")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "written to " + plan)) << answer.text;
  const Answer proof = run_command({"verify", plan, chain_file()});
  EXPECT_EQ(proof.code, ExitCode::Yes) << proof.text << proof.error;
}

TEST(PlanVerb, MakesByteEqualPlansOfEqualInputs) {
  const std::string first = testing::TempDir() + "fitstep_cli_test_first.plan";
  const std::string second = testing::TempDir() + "fitstep_cli_test_second.plan";
  run_command(
      {"plan", chain_file(), "--capacity", "28KiB", "--machine", "unit", "--output", first});
  for (const char* threads : {"1", "2", "3"}) {
    run_command({"plan", chain_file(), "--capacity", "28KiB", "--machine", "unit", "--threads",
                 threads, "--output", second});
    ASSERT_FALSE(read_file(second).empty());
    EXPECT_EQ(read_file(first), read_file(second)) << threads;
  }
}

TEST(PlanVerb, SaysTooSmallOnlyBelowTheFloorAndNamesWhatSetsIt) {
  // A backward op needs four units at once.
  const auto arena = [](int64_t bytes) {
    return run_command({"plan", chain_file(), "--capacity", std::to_string(bytes)});
  };
  const Answer answer = arena(4 * kUnit - 1);
  EXPECT_EQ(answer.code, ExitCode::No) << answer.error;
  EXPECT_TRUE(answer.text.starts_with("too small: ")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "16.00 KiB at once for b9 (net.py:11)")) << answer.text;
  EXPECT_FALSE(arena(4 * kUnit).text.starts_with("too small: "));
}

TEST(PlanVerb, SaysThatItGaveUpWithBothNumbers) {
  // Everything kept needs 12 units, and this policy knows nothing else.
  const std::vector<std::string> arguments = {"plan",       chain_file(), "--policy", "none",
                                              "--capacity", "20KiB",      "--json"};
  const Answer answer = run_command(arguments);
  EXPECT_EQ(answer.code, ExitCode::No);
  const auto json = json_of(answer);
  EXPECT_EQ(json.at("outcome"), "gave up");
  EXPECT_EQ(json.at("least_found_bytes"), 12 * kUnit);
  EXPECT_EQ(json.at("floor_bytes"), 4 * kUnit);
  EXPECT_EQ(json.at("culprits").at(0).at("file"), "net.py");
}

TEST(PlanVerb, FitsInTheBudgetThatItSaysToWriteAndInNoByteLess) {
  const auto with = [](const std::string& option, const std::string& bytes) {
    return run_command({"plan", chain_file(), "--policy", "none", option, bytes});
  };
  const std::string text = with("--capacity", "20KiB").text;
  const std::string said = "write --budget ";
  ASSERT_TRUE(contains(text, said)) << text;
  const int64_t bytes = std::stoll(text.substr(text.find(said) + said.size()));
  EXPECT_EQ(with("--budget", std::to_string(bytes)).code, ExitCode::Yes);
  EXPECT_EQ(with("--budget", std::to_string(bytes - 1)).code, ExitCode::No);
}

TEST(PlanVerb, PrintsTheSameNumbersAsJson) {
  const Answer answer = run_command({"plan", chain_file(), "--budget", "300%", "--json"});
  ASSERT_EQ(answer.code, ExitCode::Yes);
  const auto json = json_of(answer);
  EXPECT_EQ(json.at("outcome"), "fits");
  EXPECT_EQ(json.at("certificate").at("height_bytes"), 12 * kUnit);
  EXPECT_EQ(json.at("certificate").at("predicted_ps"), 20 * kPicosecondsPerSecond);
  EXPECT_EQ(json.at("question").at("budget_bytes"),
            3 * json.at("question").at("plain_peak_bytes").get<int64_t>());
}

TEST(PlanVerb, TakesTimesFromTheRooflineIfAskedTo) {
  Machine machine = unit_machine();
  machine.roofline = {.fp32_flops_per_s = 1'000'000'000'000,
                      .memory_bytes_per_s = 1'000'000'000'000,
                      .flops_efficiency = 0.35,
                      .memory_efficiency = 1};
  const std::string file = machine_file(machine);
  const std::string plan = testing::TempDir() + "fitstep_cli_test_roofline.plan";
  const Answer answer = run_command({"plan", chain_file(), "--budget", "300%", "--machine", file,
                                     "--times", "roofline", "--output", plan, "--json"});
  ASSERT_EQ(answer.code, ExitCode::Yes) << answer.error;
  const auto certificate = json_of(answer).at("certificate");
  EXPECT_EQ(certificate.at("predicted_ps"), 40 * kPicosecondsPerSecond);  // 0.7 / 0.35 s an op.
  EXPECT_TRUE(contains(read_file(plan), "times by the roofline of unit"));
}

TEST(PlanVerb, PutsCopiesToTheHostInCodesIfAskedTo) {
  Program program = test_program();
  for (Storage& storage : program.storages) storage.zero_value_bytes = storage.size_bytes / 2;
  const std::string file = write_file("coded.program", print_program(program));
  Machine machine = unit_machine();
  machine.codecs = {{.name = "zero_value", .encode_bytes_per_s = 1, .decode_bytes_per_s = 1}};
  const std::string plan = testing::TempDir() + "fitstep_cli_test_coded.plan";
  std::vector<std::string> command = {"plan",     file,      "--capacity", "28KiB",
                                      "--policy", "offload", "--machine",  machine_file(machine),
                                      "--output", plan,      "--json"};
  ASSERT_EQ(run_command(command).code, ExitCode::Yes);
  EXPECT_FALSE(contains(read_file(plan), "zero_value"));
  command.emplace_back("--host-codes");
  const auto coded = json_of(run_command(command));
  EXPECT_GT(coded.at("bytes").at("offloaded_to_host"), 0);
  EXPECT_TRUE(contains(read_file(plan), "zero_value"));
  EXPECT_TRUE(
      contains(coded.at("certificate").at("moves").get<std::string>(), "codes on the host"));
  EXPECT_EQ(run_command({"verify", plan, file}).code, ExitCode::Yes);
}

// 28 KiB are 7 of the 12 units that the chain keeps.
TEST(PlanVerb, OffloadsToTheDiskWhatTheHostMayNotHold) {
  const auto plan_with = [](const std::string& host, const std::string& disk) {
    return json_of(
        run_command({"plan", chain_file(), "--capacity", "28KiB", "--policy", "offload",
                     "--machine", "unit", "--host-budget", host, "--disk-budget", disk, "--json"}));
  };
  const auto on_host = plan_with("1GiB", "1GiB");
  EXPECT_GT(on_host.at("bytes").at("offloaded_to_host"), 0);
  EXPECT_EQ(on_host.at("bytes").at("offloaded_to_disk"), 0);
  EXPECT_EQ(on_host.at("disk_tier_bytes"), 0);
  const auto on_disk = plan_with("0", "1GiB");
  EXPECT_EQ(on_disk.at("bytes").at("offloaded_to_host"), 0);
  EXPECT_EQ(on_disk.at("bytes").at("offloaded_to_disk"),
            on_host.at("bytes").at("offloaded_to_host"));
  EXPECT_EQ(on_disk.at("host_tier_bytes"), 0);
  EXPECT_GE(on_disk.at("disk_tier_bytes"), 5 * kUnit);
  const auto on_both = plan_with("8KiB", "1GiB");
  EXPECT_GT(on_both.at("bytes").at("offloaded_to_host"), 0);
  EXPECT_GT(on_both.at("bytes").at("offloaded_to_disk"), 0);
  EXPECT_LE(on_both.at("host_tier_bytes"), 2 * kUnit);
  EXPECT_EQ(plan_with("0", "0").at("outcome"), "gave up");
}

TEST(PlanVerb, MakesPlansThatVerifyWithinTheHostTierOnly) {
  const std::string plan = testing::TempDir() + "fitstep_cli_test_host.plan";
  const std::string program = chain_file();
  const Answer made = run_command({"plan", program, "--capacity", "28KiB", "--policy", "offload",
                                   "--machine", "unit", "--output", plan, "--json"});
  ASSERT_EQ(made.code, ExitCode::Yes) << made.error;
  const auto host_bytes = json_of(made).at("host_tier_bytes").get<int64_t>();
  const auto within = [&](int64_t bytes) {
    return run_command({"verify", plan, program, "--host-capacity", fmt::format("{}", bytes)});
  };
  EXPECT_EQ(within(host_bytes).code, ExitCode::Yes);
  EXPECT_EQ(within(host_bytes - 1).code, ExitCode::No);
  EXPECT_TRUE(contains(within(host_bytes - 1).text, to_string(FaultKind::OverCapacity)));
}

TEST(PlanVerb, ShowsWhatGoesToTheDisk) {
  const std::string plan = testing::TempDir() + "fitstep_cli_test_disk.plan";
  const std::string program = chain_file();
  const std::vector<std::string> machine = {"--machine", "unit", "--host-budget", "0"};
  const auto with_machine = [&](std::vector<std::string> words) {
    words.insert(words.end(), machine.begin(), machine.end());
    return run_command(words).text;
  };
  const std::string made =
      with_machine({"plan", program, "--capacity", "28KiB", "--policy", "offload", "-o", plan});
  EXPECT_TRUE(contains(made, "disk space for offloaded tensors")) << made;
  EXPECT_TRUE(contains(run_command({"show", plan}).text, " disk write, ")) << plan;
  EXPECT_TRUE(contains(with_machine({"simulate", plan, program}), "disk write"));
  const std::string report = with_machine({"report", plan, program});
  EXPECT_TRUE(contains(report, "disk read")) << report;
  EXPECT_TRUE(contains(report, "host - disk")) << report;
}

TEST(PlanVerb, TellsHowFarItIs) {
  std::vector<double> shares;
  const Progress progress = [&](const std::string& what, double share) {
    EXPECT_EQ(what, "planning");
    shares.push_back(share);
  };
  run_command({"plan", chain_file(), "--capacity", "28KiB"}, progress);
  ASSERT_FALSE(shares.empty());
  EXPECT_GT(shares.front(), 0);
  EXPECT_LE(shares.back(), 1);
}

TEST(PlanVerb, RefusesBadInputWithWhatToDo) {
  const std::string program = chain_file();
  Machine no_tiers = unit_machine();
  no_tiers.links.clear();
  no_tiers.tiers.clear();
  const std::string bad_machine = write_file("no_tiers.json", print_machine(no_tiers));
  Machine negative = unit_machine();
  negative.links[0].evict.alone_bytes_per_s = -3;
  const std::string bad_rate = write_file("negative.json", print_machine(negative));
  const std::string bare = write_file("bare.program", print_program(chain_program({})));
  const std::string edited = write_file("edited.program", print_program(test_program()) + "op 7\n");
  const std::string next = write_file("next.program", "fitstep program 2\n");
  Program large = test_program();
  for (Storage& storage : large.storages) storage.size_bytes = int64_t{1} << 34;
  const std::string vast = write_file("vast.program", print_program(large));
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{"plan", program, "--budget", "6 Gibi"}, "\"Gibi\" is not a unit"},
      {{"plan", program, "--budget", "0%"}, "write one from above 0%"},
      {{"plan", program, "--budget", "0"}, "write for example 6GiB"},
      {{"plan", bare, "--budget", "75%"}, "its peak is not known; give bytes"},
      {{"plan", program}, "give either --budget (such as 6GiB"},
      {{"plan", program, "--budget", "1GiB", "--capacity", "1GiB"}, "give either"},
      {{"plan", program, "--budget", "1GiB", "--policy", "belady"}, "auto"},
      {{"plan", program, "--budget", "1GiB", "--effort", "0"}, "--effort"},
      {{"plan", program, "--budget", "1GiB", "--time-limit", "-1"}, "--time-limit"},
      {{"plan", program, "--budget", "1GiB", "--threads", "0"}, "--threads"},
      {{"plan", program, "--budget", "1GiB", "--seed", "-1"}, "--seed"},
      {{"plan", program, "--budget", "1GiB", "--machine", "a100"},
       "the profiles are a100-40gb, a100-80gb"},
      {{"plan", program, "--budget", "1GiB", "--machine", "./none.json"},
       "cannot open ./none.json"},
      {{"plan", program, "--budget", "1GiB", "--machine", bad_machine}, "tiers is empty"},
      {{"plan", program, "--budget", "1GiB", "--machine", bad_rate},
       "links[0].evict.alone_bytes_per_s is -3"},
      {{"plan", program, "--budget", "1GiB", "--machine", program}, "cannot read the machine"},
      {{"plan", program, "--budget", "1GiB", "--times", "roofline"}, "has no \"roofline\""},
      {{"plan", program, "--budget", "1GiB", "--host-budget", "1GiB"}, "no tier below the device"},
      {{"plan", program, "--budget", "1GiB", "--disk-budget", "1GiB"}, "no tier below the host"},
      {{"plan", program, "--budget", "1GiB", "--machine", "unit", "--host-budget", "-1"},
       "it is negative"},
      {{"plan", program, "--budget", "1GiB", "--output", "/no/such/folder/plan"},
       "cannot write /no/such/folder/plan: there is no folder /no/such/folder"},
      {{"plan", vast, "--budget", "75%", "--machine", "unit"}, "machine \"unit\" is too slow"},
      {{"curve", vast, "--machine", "unit"}, "machine \"unit\" is too slow"},
      {{"show", vast, "--machine", "unit"}, "machine \"unit\" is too slow"},
      {{"plan", edited, "--budget", "1GiB"}, edited + ": cannot read the program file: line"},
      {{"plan", next, "--budget", "1GiB"}, next + ": cannot read the program file"},
      {{"curve", next}, next + ": cannot read the program file"},
      {{"curve", program, "--points", "-1"}, "--points"},
      {{"curve", program, "--machine", "a100"}, "the profiles are a100-40gb"},
  };
  for (const Case& bad : cases) {
    const Answer answer = run_command(bad.arguments);
    EXPECT_EQ(answer.code, ExitCode::BadInput) << bad.message;
    EXPECT_TRUE(contains(answer.error, bad.message)) << bad.message << "\n" << answer.error;
    EXPECT_EQ(answer.text, "");
  }
}

TEST(CurveVerb, FallsInBytesAndRisesInTime) {
  const Answer answer = run_command({"curve", chain_file(), "--json"});
  ASSERT_EQ(answer.code, ExitCode::Yes) << answer.error;
  const auto json = json_of(answer);
  EXPECT_EQ(json.at("floor_bytes"), 4 * kUnit);
  EXPECT_EQ(json.at("bound_ps"), 20 * kPicosecondsPerSecond);  // load, 9 f, loss, 9 b.
  const auto& points = json.at("points");
  ASSERT_GE(points.size(), 3U);
  EXPECT_EQ(points.at(0).at("height_bytes"), 12 * kUnit);
  EXPECT_EQ(points.at(0).at("predicted_ps"), 20 * kPicosecondsPerSecond);
  for (size_t i = 1; i < points.size(); ++i) {
    EXPECT_LT(points.at(i).at("height_bytes"), points.at(i - 1).at("height_bytes"));
    EXPECT_GT(points.at(i).at("predicted_ps"), points.at(i - 1).at("predicted_ps"));
    EXPECT_GE(points.at(i).at("predicted_ps"), points.at(i).at("bound_ps"));
  }
}

TEST(CurveVerb, PrintsATableAndAChart) {
  const Answer answer = run_command({"curve", chain_file(), "--points", "2"});
  ASSERT_EQ(answer.code, ExitCode::Yes) << answer.error;
  EXPECT_TRUE(contains(answer.text, "48.00 KiB      20.00 s      20.00 s   1.000x")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "      +-----")) << answer.text;
  const auto json = json_of(run_command({"curve", chain_file(), "--points", "2", "--json"}));
  EXPECT_EQ(json.at("points").size(), 2U);  // The fastest and the lowest.
  const auto all = json_of(run_command({"curve", chain_file(), "--json"}));
  EXPECT_EQ(json.at("points").back(), all.at("points").back());
}

TEST(CurveVerb, SaysWhatThePlansHaveOnTheTiersBelow) {
  const auto curve = [](const std::string& host, const std::string& disk, bool as_json) {
    std::vector<std::string> words = {"curve",         chain_file(), "--machine",     "unit",
                                      "--policy",      "offload",    "--host-budget", host,
                                      "--disk-budget", disk};
    if (as_json) words.emplace_back("--json");
    return run_command(words);
  };
  const auto on_host = json_of(curve("1GiB", "0", true)).at("points").back();
  EXPECT_GT(on_host.at("host_tier_bytes"), 0);
  EXPECT_EQ(on_host.at("disk_tier_bytes"), 0);
  const auto on_disk = json_of(curve("0", "1GiB", true)).at("points").back();
  EXPECT_EQ(on_disk.at("host_tier_bytes"), 0);
  EXPECT_GT(on_disk.at("disk_tier_bytes"), 0);
  const auto has_column = [&](const Answer& answer, const char* tier) {
    return contains(answer.text.substr(0, answer.text.find("ratio")), std::string(tier) + "  ");
  };
  EXPECT_TRUE(has_column(curve("1GiB", "0", false), "host"));
  EXPECT_FALSE(has_column(curve("1GiB", "0", false), "disk"));
  EXPECT_TRUE(has_column(curve("0", "1GiB", false), "disk"));
}

}  // namespace
}  // namespace fitstep

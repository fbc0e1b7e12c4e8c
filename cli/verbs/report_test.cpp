// `fitstep simulate`, `report` and `show PLAN PROGRAM`, on the pyramid with both of its gaps
// offloaded, on the unit machine:
//
//   second     0  1  2  3  4  5  6
//   compute   |f0|f1|f2|b2|..|b1|b0|
//   evict           |a0|a1|
//   prefetch              |a1|a0|
#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/plan_file.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/programs/pyramid.h"
#include "tests/support/expect_plan.h"
#include "tests/support/offload_gaps.h"
#include "tests/support/test_files.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

// Its peak is the verifier's: a0 may still be leaving when b2 runs, so one more than in the
// picture.
Plan offloaded() {
  const Program program = program_of(kPyramid);
  Plan plan = offload_gaps(program);
  plan.certificate.peak_bytes = 4;
  plan.certificate.height_bytes = 257;  // Five blocks of one byte, 64 apart.
  expect_valid(program, plan, {.capacity_bytes = {plan.certificate.capacity_bytes, 2}});
  plan.certificate.predicted_ps = 7 * kSecond;
  plan.certificate.bound_ps = 6 * kSecond;
  return plan;
}

// The verb, the offloaded plan, its program, the unit machine, and `more`.
Answer run(const std::string& verb, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {verb, plan_file(offloaded()), pyramid_file(), "--machine",
                                        "unit"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_command(arguments);
}

nlohmann::json json_of_yes(const Answer& answer) {
  EXPECT_EQ(answer.code, ExitCode::Yes) << answer.error;
  return nlohmann::json::parse(answer.text, nullptr, /*allow_exceptions=*/false);
}

TEST(SimulateVerb, PrintsTimeAndLanes) {
  const Answer answer = run("simulate");
  EXPECT_EQ(answer.code, ExitCode::Yes) << answer.error;
  EXPECT_TRUE(contains(answer.text, "time           7.000 s  1.000x of the 7.000 s that the plan"))
      << answer.text;
  const auto json = json_of_yes(run("simulate", {"--json"}));
  EXPECT_EQ(json.at("time_ps"), 7 * kSecond);
  EXPECT_EQ(json.at("lanes").at("compute").at("stall_ps"), kSecond);
  EXPECT_EQ(json.at("lanes").at("evict").at("busy_ps"), 2 * kSecond);
}

TEST(SimulateVerb, TakesOtherTimesAndRates) {
  // Six ops of two seconds.
  const auto slow = json_of_yes(run("simulate", {"--durations", "2..2", "--json"}));
  EXPECT_EQ(slow.at("lanes").at("compute").at("busy_ps"), 12 * kSecond);
  const auto fast = json_of_yes(run("simulate", {"--rate-factor", "1000", "--json"}));
  EXPECT_EQ(fast.at("time_ps"),
            json_of_yes(run("simulate", {"--durations", "1..1", "--rate-factor", "1000", "--json"}))
                .at("time_ps"));
  EXPECT_LT(fast.at("time_ps"), 7 * kSecond);
  const auto some =
      json_of_yes(run("simulate", {"--durations", "0.5..1.5", "--seed", "3", "--json"}));
  const auto other =
      json_of_yes(run("simulate", {"--durations", "0.5..1.5", "--seed", "4", "--json"}));
  EXPECT_NE(some.at("time_ps"), other.at("time_ps"));
  EXPECT_EQ(some.at("certificate"), other.at("certificate"));
}

// The certificate's bound is for other numbers; that of all ops once holds for these.
TEST(SimulateVerb, StandsBesideABoundOfTheSameTimes) {
  EXPECT_EQ(json_of_yes(run("simulate", {"--json"})).at("bound_ps"), 6 * kSecond);
  const auto fast = json_of_yes(run("simulate", {"--durations", "0.5..0.5", "--json"}));
  EXPECT_EQ(fast.at("bound_ps"), 3 * kSecond);
  EXPECT_GE(fast.at("time_ps"), fast.at("bound_ps"));
}

TEST(SimulateVerb, SweepsTimesAndNeverFindsAFault) {
  const auto json = json_of_yes(run("simulate", {"--sweep", "--json"}));
  ASSERT_EQ(json.at("rows").size(), 8U);  // Four widths, each at two rates.
  EXPECT_EQ(json.at("rows").at(0).at("median_ps"), 7 * kSecond);
  bool has_moved = false;
  for (const auto& row : json.at("rows")) {
    EXPECT_EQ(row.at("faults"), 0);
    EXPECT_LE(row.at("least_ps"), row.at("median_ps"));
    EXPECT_LE(row.at("median_ps"), row.at("most_ps"));
    EXPECT_LE(row.at("peak_bytes"), offloaded().certificate.peak_bytes);
    has_moved = has_moved || row.at("least_ps") < row.at("most_ps");
  }
  EXPECT_TRUE(has_moved);
  const Answer text = run("simulate", {"--sweep"});
  EXPECT_TRUE(contains(text.text, "+-20 %  x 0.8")) << text.text;
}

TEST(ReportVerb, SaysWhereTimeAndBytesGo) {
  const Answer answer = run("report");
  ASSERT_EQ(answer.code, ExitCode::Yes) << answer.error;
  for (const char* part :
       {"step             7.000 s  100.0 %  1.167x of the bound 6.000 s",
        "prefetch         1.000 s   14.3 %  waits: 1\n", " longest 1.000 s at b1,\n",
        " waiting for a1\n", "device - host   evict           2         2 B     2.000 s",
        "live at the peak: 3 B at tick 2, f2", "offload            2 B         2  copied",
        "a0 of f0",
        "               2 B copied\n               unused for 4.000 s until b0\n"
        "               recomputing it would take 1.000 s\n"}) {
    EXPECT_TRUE(contains(answer.text, part)) << part << "\n" << answer.text;
  }
}

TEST(ReportVerb, PrintsTheSameNumbersAsJson) {
  const auto json = json_of_yes(run("report", {"--json"}));
  EXPECT_EQ(json.at("time").at("step_ps"), 7 * kSecond);
  EXPECT_EQ(json.at("time").at("stall_ps"), kSecond);
  EXPECT_EQ(json.at("links").at(0).at("prefetch").at("bytes"), 2);
  EXPECT_EQ(json.at("choices").at("totals").at("offload").at("bytes"), 2);
  EXPECT_EQ(json.at("live_bytes").size(), 6U);
  EXPECT_EQ(json.at("stalls").size(), 3U);
}

TEST(ReportVerb, WritesATrace) {
  const std::string path = testing::TempDir() + "fitstep_cli_test_trace.json";
  const Answer answer = run("report", {"--trace", path});
  EXPECT_TRUE(contains(answer.text, "trace in " + path)) << answer.error;
  EXPECT_TRUE(nlohmann::json::parse(read_file(path)).at("traceEvents").is_array());
  EXPECT_EQ(run("report", {"--trace", "/no/such/folder/t.json"}).code, ExitCode::BadInput);
}

TEST(ShowVerb, ShowsAPlanWithTheNamesOfItsProgram) {
  const Answer answer = run("show");
  ASSERT_EQ(answer.code, ExitCode::Yes) << answer.error;
  for (const char* part :
       {"largest of offload", "a0 of f0", "          3 B |  #\n", "4 copies, 4 B in all"}) {
    EXPECT_TRUE(contains(answer.text, part)) << part << "\n" << answer.text;
  }
  const auto json = json_of_yes(run("show", {"--json"}));
  EXPECT_EQ(json.at("largest").at(0).at("name"), "a0");
  EXPECT_EQ(json.at("choices").at("storages").at(0).at("choice"), "offload");
}

TEST(ProvenVerbs, RefuseWhatIsNotAPlanOfThisProgram) {
  const std::string good = plan_file(offloaded());
  const std::string program = pyramid_file();
  const std::string text = print_plan(offloaded());
  const auto edited_text = [&](const std::string& from, const std::string& to) {
    std::string edited = text;
    return edited.replace(edited.find(from), from.size(), to);
  };
  const std::string cut = write_file("cut.plan", text.substr(0, text.size() / 2));
  const std::string edited = write_file("edited.plan", edited_text("\"run\": 3", "\"run\": 2"));
  const std::string next = write_file("next.plan", edited_text("\"format\": 1", "\"format\": 9"));
  Plan faulty = offloaded();
  faulty.lane(Lane::Compute)[4].waits.clear();  // b1 reads a1 before it is back.
  const std::string unsafe = write_file("unsafe.plan", print_plan(faulty));
  Program changed = program_of(kPyramid);
  changed.ops.back().must_not_move = true;
  const std::string other = write_file("other2.program", print_program(changed));
  struct Case {
    std::vector<std::string> files;
    ExitCode code;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{cut, program}, ExitCode::BadInput, cut + ": cannot read the plan file"},
      {{edited, program}, ExitCode::BadInput, "checksum"},
      {{next, program}, ExitCode::BadInput, "format 9"},
      {{good, good}, ExitCode::BadInput, good + " is a plan file; give a program file"},
      {{good, "/none"}, ExitCode::BadInput, "cannot open /none"},
      {{good, other}, ExitCode::No, "is not a valid plan for " + other + ": wrong program"},
      {{unsafe, program}, ExitCode::No, "not resident"},
      {{good, program, "--machine", "titan-x-maxwell"}, ExitCode::Yes, ""},
      // Its host tier is closed: what is below the device is a disk.
      {{good, program, "--machine", "local-example"}, ExitCode::No, "over capacity"},
      {{good, program, "--machine", ""}, ExitCode::BadInput, "lacks a link for it"},
      {{good, program, "--machine", "unit", "--host-budget", "1"}, ExitCode::No, "over capacity"},
  };
  for (const char* verb : {"simulate", "report", "show"}) {
    for (const Case& it : cases) {
      SCOPED_TRACE(std::string(verb) + ": " + it.message);
      std::vector<std::string> arguments = {verb};
      arguments.insert(arguments.end(), it.files.begin(), it.files.end());
      if (it.files.size() == 2) arguments.insert(arguments.end(), {"--machine", "unit"});
      const Answer answer = run_command(arguments);
      EXPECT_EQ(answer.code, it.code) << answer.text;
      EXPECT_TRUE(contains(answer.error, it.message)) << answer.error;
      EXPECT_EQ(answer.text.empty(), it.code != ExitCode::Yes);
    }
  }
}

TEST(SimulateVerb, RefusesFactorsThatAreNone) {
  for (const std::string bad : {"1.2..0.8", "0.8", "a..b", "-1..1", "1..", "1..1e9", "nan..nan"}) {
    const Answer answer = run("simulate", {"--durations=" + bad});
    EXPECT_EQ(answer.code, ExitCode::BadInput) << bad;
    EXPECT_TRUE(contains(answer.error, "such as 0.8..1.2")) << answer.error;
  }
  for (const std::string bad : {"-1", "0", "fast"}) {
    EXPECT_EQ(run("simulate", {"--rate-factor=" + bad}).code, ExitCode::BadInput) << bad;
  }
}

}  // namespace
}  // namespace fitstep

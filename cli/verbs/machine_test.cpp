// `fitstep machine`.
#include "fitstep/machine/machine.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/profiles.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

TEST(MachineVerb, ListsAllProfiles) {
  const Answer text = run_command({"machine"});
  EXPECT_EQ(text.code, ExitCode::Yes) << text.error;
  EXPECT_TRUE(contains(text.text, "a100-40gb            40.00 GiB  128.00 GiB     24.8     24.8"))
      << text.text;
  const auto json = nlohmann::json::parse(run_command({"machine", "--json"}).text);
  ASSERT_EQ(json.size(), profiles().size());
  for (size_t i = 0; i < json.size(); ++i) {
    EXPECT_TRUE(contains(text.text, profiles()[i].name));
    EXPECT_EQ(json.at(i).at("name"), profiles()[i].name);
  }
}

TEST(MachineVerb, PrintsOneThatCanBeGivenBack) {
  const Answer answer = run_command({"machine", "h100-sxm"});
  ASSERT_EQ(answer.code, ExitCode::Yes) << answer.error;
  EXPECT_EQ(parse_machine(answer.text).value(), named_machine("h100-sxm").value());
  const std::string file = write_file("h100.json", answer.text);
  EXPECT_EQ(run_command({"machine", file}).text, answer.text);
}

TEST(MachineVerb, MeasuresThisOne) {
  const std::string path = testing::TempDir() + "fitstep_cli_test_measured.json";
  const Answer answer = run_command({"machine", "--measure", "here", "--threads", "1", "-o", path});
  ASSERT_EQ(answer.code, ExitCode::Yes) << answer.error;
  EXPECT_TRUE(contains(answer.text, "written to " + path));
  const Result<Machine> machine = parse_machine(read_file(path));
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  EXPECT_EQ(machine->name, "here");
  EXPECT_EQ(machine->threads, 1);
  ASSERT_EQ(machine->tiers.size(), 2U);
  EXPECT_GT(machine->tiers[0].capacity_bytes, 0);
  EXPECT_EQ(machine->sources.size(), 7U);
}

TEST(MachineVerb, RefusesWhatItCannotDo) {
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{"machine", "a100"}, "the profiles are a100-40gb"},
      {{"machine", "./none.json"}, "cannot open ./none.json"},
      {{"machine", "--threads", "2"}, "--measure"},
      {{"machine", "--measure", "--threads", "0"}, "--threads"},
      {{"machine", "--measure", "--disk-dir", "/no/such/folder"}, "/no/such/folder"},
      {{"machine", "-o", "x.json"}, "name the profile"},
      {{"machine", "unit", "-o", "/no/such/folder/x.json"}, "cannot write"},
  };
  for (const Case& bad : cases) {
    const Answer answer = run_command(bad.arguments);
    EXPECT_EQ(answer.code, ExitCode::BadInput) << bad.message;
    EXPECT_TRUE(contains(answer.error, bad.message)) << answer.error;
  }
}

}  // namespace
}  // namespace fitstep

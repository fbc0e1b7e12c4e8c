// The examples of docs/reference/cli.md are commands that work. What they print is written by
// tools/cli_docs.py, and may change with the planner.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

// What stands behind "$ fitstep", with files of the sources and of the test.
std::vector<std::vector<std::string>> examples() {
  std::vector<std::vector<std::string>> found;
  std::istringstream page(read_file(std::string(FITSTEP_SOURCE_DIR) + "/docs/reference/cli.md"));
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("$ fitstep ")) continue;
    std::istringstream words(line.substr(10));
    found.emplace_back();
    for (std::string word; words >> word;) {
      if (word.ends_with(".zst")) {
        word = std::string(FITSTEP_SOURCE_DIR) + "/benchmarks/programs/" + word;
      }
      if (word.ends_with(".csv")) {
        word = std::string(FITSTEP_SOURCE_DIR) + "/tests/fuzz/seeds/layout/" + word;
      }
      if (word.ends_with(".plan")) word = testing::TempDir() + "fitstep_docs_test_" + word;
      found.back().push_back(word);
    }
  }
  return found;
}

TEST(CliPage, HasExamplesOfEveryVerbThatWork) {
  std::string verbs;
  for (const std::vector<std::string>& example : examples()) {
    const Answer answer = run_command(example);
    EXPECT_NE(answer.code, ExitCode::BadInput) << example.front() << ": " << answer.error;
    EXPECT_FALSE(answer.text.empty());
    verbs += example.front() + " ";
  }
  for (const std::string& verb : verb_names()) EXPECT_TRUE(contains(verbs, verb)) << verb;
}

}  // namespace
}  // namespace fitstep

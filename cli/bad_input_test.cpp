// What people may give a verb by mistake: one clear error with the file and the line or the field
// in it, nothing on the standard output, and never a crash.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "fitstep/machine/machine.h"
#include "tests/programs/pyramid.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

// The text with its first `from` replaced.
std::string edited(std::string_view text, std::string_view from, std::string_view to) {
  std::string copy(text);
  const size_t place = copy.find(from);
  EXPECT_NE(place, copy.npos) << from;
  return copy.replace(place, from.size(), to);
}

std::string unit_with(std::string_view from, std::string_view to) {
  return edited(print_machine(unit_machine()), from, to);
}

struct BadFile {
  std::string name;
  std::string text;
  std::string message;  // Behind "fitstep: <file>: ".
};

void expect_refused(const BadFile& bad, std::vector<std::string> arguments) {
  const std::string path = write_file(bad.name, bad.text);
  for (std::string& argument : arguments) {
    if (argument == "FILE") argument = path;
  }
  const Answer answer = run_command(arguments);
  EXPECT_EQ(answer.code, ExitCode::BadInput) << bad.name;
  EXPECT_EQ(answer.text, "") << bad.name;
  const std::string start = fmt::format("fitstep: {}: {}", path, bad.message);
  EXPECT_TRUE(answer.error.starts_with(start))
      << "wanted: " << start << "\ngot:    " << answer.error;
  EXPECT_EQ(answer.error.find('\n'), answer.error.size() - 1) << "one line: " << answer.error;
}

TEST(BadInput, ProgramsAreRefusedWithFileAndLine) {
  const std::string read = "cannot read the program file: ";
  const std::vector<BadFile> files = {
      {"cyclic", edited(kPyramid, "reads 0.0", "reads 2.1"),
       read + "line 11: invalid program: op 0 (f0) form 0 reads version 1 of storage 2 (a1), but "
              "the last one written there is 0; an op reads what ops in front of it wrote"},
      {"unwritten", edited(kPyramid, "reads 0.0", "reads 2.0"),
       read + "line 11: invalid program: op 0 (f0) form 0 reads version 0 of storage 2 (a1), which "
              "has no content at start; either an op in front writes it"},
      {"negative", edited(kPyramid, "\"a1\" 1 ", "\"a1\" -1 "),
       read + "line 5: invalid program: storage 2 (a1) has -1 bytes; a size lies in 0 .. 2^52"},
      {"huge", edited(kPyramid, "\"a1\" 1 ", "\"a1\" 4611686018427387904 "),
       read + "line 5: invalid program: storage 2 (a1) has 4611686018427387904 bytes; a size"},
      {"large", edited(kPyramid, "\"a1\" 1 ", "\"a1\" 1152921504606846976 "),
       read + "line 5: invalid program: storage 2 (a1) has 1152921504606846976 bytes; a size"},
      {"too-long", edited(kPyramid, "\"a1\" 1 ", "\"a1\" 9223372036854775808 "),
       read + "line 5, word 4 (9223372036854775808): its bytes does not fit 64 bits"},
      {"negative-time", edited(kPyramid, "time 1000000000000", "time -1"),
       read + "line 11: invalid program: op 0 (f0) form 0 takes -1 ps"},
      {"cut-line", std::string(kPyramid.substr(0, kPyramid.find("reads 0.0") + 6)),
       read + "it is cut off after 0 calls, 7 storages and 1 ops (the end record is missing)"},
      {"endless", edited(kPyramid, "reads 0.0", "reads 99999999999999999999.0"),
       read + "line 11, word 7 (99999999999999999999.0): a storage does not fit 64 bits"},
      {"cut-word", std::string(kPyramid.substr(0, kPyramid.find("recorded 0-6") + 10)),
       read + "line 3, word 8 (0): expected '-' in ticks such as 2-5"},
  };
  for (const BadFile& bad : files) {
    expect_refused(bad, {"show", "FILE"});
    expect_refused(bad, {"plan", "FILE", "--budget", "1KiB", "--machine", "unit"});
  }
}

// Offsets and sums of so many bytes are still far from the end of their numbers.
TEST(BadInput, TheLargestSizesAreLegal) {
  const std::string largest = std::to_string((int64_t{1} << 52) - 100);
  const std::string text = edited(kPyramid, "\"a1\" 1 ", "\"a1\" " + largest + " ");
  const std::string path = write_file("largest.program", text);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"show", path}, {"curve", path}}) {
    const Answer answer = run_command(arguments);
    EXPECT_EQ(answer.code, ExitCode::Yes) << answer.error;
    EXPECT_TRUE(contains(answer.text, "4.00 PiB") || contains(answer.text, "4096.00 TiB"))
        << answer.text;
  }
}

// They make no block: the pyramid needs as many bytes as before.
TEST(BadInput, StoragesWithoutBytesAreLegal) {
  const std::string path = write_file("zero.program", edited(kPyramid, "\"a1\" 1 ", "\"a1\" 0 "));
  const Answer answer = run_command({"show", path});
  EXPECT_EQ(answer.code, ExitCode::Yes) << answer.error;
  EXPECT_TRUE(contains(answer.text, "keep all                 2 B")) << answer.text;
}

TEST(BadInput, MachinesAreRefusedWithFileAndField) {
  const std::string read = "cannot read the machine profile: ";
  const std::vector<BadFile> files = {
      {"rate.json", unit_with("\"alone_bytes_per_s\": 1", "\"alone_bytes_per_s\": -1"),
       read + "links[0].evict.alone_bytes_per_s is -1, outside 1 .."},
      {"latency.json", unit_with("\"latency_ps\": 0", "\"latency_ps\": -1"),
       read + "links[0].evict.latency_ps is negative (-1)"},
      {"tiers.json",
       "{\"format\": 1, \"name\": \"x\", \"threads\": 1, \"launch_ps\": 0, \"tiers\": [], "
       "\"links\": [], \"codecs\": []}",
       read + "tiers is empty; a machine has at least a device"},
      {"cut.json", print_machine(unit_machine()).substr(0, 100),
       read + "line 8: it is not JSON from here on; if it is cut off, copy it again"},
      {"comma.json", unit_with("\"threads\": 1,", "\"threads\": 1"),
       read + "line 5: it is not JSON from here on"},
  };
  for (const BadFile& bad : files) {
    expect_refused(bad, {"plan", pyramid_file(), "--budget", "1KiB", "--machine", "FILE"});
  }
}

// What fuzzing starts from, and what it has found: each is read or refused, and soon.
TEST(BadInput, SeedsOfTheFuzzTargetsAreReadOrRefused) {
  const std::filesystem::path seeds = std::string(FITSTEP_SOURCE_DIR) + "/tests/fuzz/seeds";
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(seeds)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = entry.path().string();
    const std::string reader = entry.path().parent_path().filename().string();
    std::vector<std::string> arguments = {"show", path};
    if (reader == "machine") arguments = {"machine", path};
    if (reader == "layout") arguments = {"layout", path};
    const Answer answer = run_command(arguments);
    const bool is_found = contains(path, "endless");
    EXPECT_EQ(answer.code, is_found ? ExitCode::BadInput : ExitCode::Yes) << path << answer.error;
    ++files;
  }
  EXPECT_GE(files, 10);
}

// The largest ops of the pyramid hold what they read and what they make.
TEST(BadInput, ABudgetBelowTheLargestOpNamesTheOpAndWhatItTakes) {
  const Answer answer =
      run_command({"plan", pyramid_file(), "--budget", "1B", "--machine", "unit"});
  EXPECT_EQ(answer.code, ExitCode::No) << answer.error;
  EXPECT_TRUE(answer.text.starts_with("too small: ")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "proven: every plan needs at least this arena")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "that is a budget of ")) << answer.text;
  EXPECT_TRUE(contains(answer.text, "2 B at once for f1\n")) << answer.text;
}

}  // namespace
}  // namespace fitstep

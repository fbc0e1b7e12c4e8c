#include "fitstep/machine/machine.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fitstep/base/result.h"

namespace fitstep {
namespace {

std::string read_profile(const std::string& name) {
  std::ifstream file(std::string(FITSTEP_SOURCE_DIR) + "/fitstep/machine/profiles/" + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Machine full_machine() {
  Machine machine = unit_machine();
  machine.name = "full";
  machine.threads = 3;
  machine.launch_ps = 4'000'000;
  machine.tiers[0].capacity_bytes = 1000;
  machine.tiers[1].is_closed = true;
  machine.links[1].evict = {.alone_bytes_per_s = 7, .both_bytes_per_s = 5, .latency_ps = 3};
  machine.links[1].compute_slowdown = 1.625;
  machine.codecs = {{.name = "signs",
                     .encode_bytes_per_s = 11,
                     .decode_bytes_per_s = 13,
                     .compute_slowdown = 1.375,
                     .is_on_device = true}};
  machine.roofline = {.fp32_flops_per_s = 17,
                      .memory_bytes_per_s = 19,
                      .flops_efficiency = 0.5,
                      .memory_efficiency = 0.25};
  machine.sources = {{.figure = "threads", .source = "counted"}};
  return machine;
}

TEST(Machine, PrintedAndParsedIsEqual) {
  for (const Machine& machine : {unit_machine(), full_machine()}) {
    const Result<Machine> parsed = parse_machine(print_machine(machine));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(*parsed, machine);
  }
}

TEST(Machine, HasNoRoomOnATierThatIsClosedOrNotThere) {
  Machine machine = full_machine();
  EXPECT_EQ(room_bytes(machine, TierId(0)), 1000);
  EXPECT_EQ(room_bytes(machine, TierId(1)), 0);
  EXPECT_EQ(room_bytes(machine, TierId(2)), kUnlimitedBytes);  // Nobody knows how much.
  machine.tiers.pop_back();
  EXPECT_EQ(room_bytes(machine, TierId(2)), 0);
}

TEST(Machine, UnitProfileIsTheUnitMachine) {
  EXPECT_EQ(read_profile("unit.json"), print_machine(unit_machine()));
}

TEST(Machine, LocalProfileIsReadable) {
  const Result<Machine> parsed = parse_machine(read_profile("local-example.json"));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(room_bytes(*parsed, TierId(1)), 0) << "RAM is the device here";
  EXPECT_EQ(room_bytes(*parsed, TierId(2)), 83'103'256'576) << "the file's third capacity_bytes";
}

// The full machine with one piece replaced, and what the error must say.
struct Edit {
  std::string from;
  std::string to;
  std::string message;
};

TEST(Machine, NamesTheFaultyField) {
  const std::vector<Edit> edits = {
      {"\"codecs\"", "\"codec\"", "codecs is missing"},
      {"\"threads\": 3", "\"threads\": 0", "threads is 0, outside 1 .. 4096"},
      {"\"threads\": 3", "\"threads\": 3.5", "threads is not a whole number"},
      {"\"threads\": 3", "\"threads\": 3, \"cores\": 3", "cores is unknown"},
      {"\"format\": 1", "\"format\": 2", "it has format 2, and this fitstep reads format 1"},
      {"\"full\"", "7", "name is not a string"},
      {"4000000", "-4000000", "launch_ps is negative (-4000000)"},
      {"4000000", "18446744073709551615", "launch_ps is not a whole number that fits 64 bits"},
      {"\"capacity_bytes\": 1000", "\"capacity_bytes\": -1", "tiers[0].capacity_bytes is negative"},
      {"\"closed\": true", "\"closed\": 1", "tiers[1].closed is neither true nor false"},
      {"\"capacity_bytes\": 1000", "\"bytes\": 1000", "tiers[0].capacity_bytes is missing"},
      {"\"upper\": 1", "\"upper\": 2", "links[1].upper is 2; a link joins tier `upper` with"},
      {"\"alone_bytes_per_s\": 7", "\"alone_bytes_per_s\": -7",
       "links[1].evict.alone_bytes_per_s is -7, outside 1 .."},
      {"\"alone_bytes_per_s\": 7", "\"alone_bytes_per_s\": 0",
       "links[1].evict.alone_bytes_per_s is 0, outside 1 .."},
      {"1.625", "0.5", "links[1].compute_slowdown is less than 1"},
      {"1.625", "\"1.625\"", "links[1].compute_slowdown is not a number"},
      {"\"signs\"", "[]", "codecs[0].name is not a string"},
      {"1.375", "0.5", "codecs[0].compute_slowdown is less than 1"},
      {"\"links\": [", "\"links\": [3,", "links[0] is not an object"},
      {"\"fp32_flops_per_s\": 17", "\"fp32_flops_per_s\": 0",
       "roofline.fp32_flops_per_s is 0, outside 1 .."},
      {"\"memory_bytes_per_s\"", "\"bytes_per_s\"", "roofline.memory_bytes_per_s is missing"},
      {"0.5", "1.5", "roofline.flops_efficiency is not in (0, 1]"},
      {"0.25", "0", "roofline.memory_efficiency is not in (0, 1]"},
      {"0.25", "0.25, \"cores\": 3", "roofline.cores is unknown"},
      {"\"counted\"", "7", "sources.threads is not a string"},
      {"\"sources\": {", "\"sources\": 3, \"more\": {", "sources is not an object"},
  };
  for (const Edit& edit : edits) {
    std::string text = print_machine(full_machine());
    const size_t place = text.find(edit.from);
    ASSERT_NE(place, text.npos) << edit.from;
    text.replace(place, edit.from.size(), edit.to);
    const Result<Machine> parsed = parse_machine(text);
    ASSERT_FALSE(parsed.has_value()) << edit.to;
    EXPECT_NE(parsed.error().message.find(edit.message), std::string::npos)
        << "wanted: " << edit.message << "\ngot:    " << parsed.error().message;
  }
}

TEST(Machine, RefusesWhatIsNoProfile) {
  const std::string text = print_machine(full_machine());
  for (size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_FALSE(parse_machine(text.substr(0, length)).has_value()) << length;
  }
  EXPECT_FALSE(parse_machine("[]").has_value());
  EXPECT_FALSE(parse_machine("null").has_value());
  Machine machine = full_machine();
  machine.links.clear();
  machine.tiers.clear();
  EXPECT_EQ(parse_machine(print_machine(machine)).error().message,
            "cannot read the machine profile: tiers is empty; a machine has at least a device");
}

}  // namespace
}  // namespace fitstep

#include "fitstep/plan/plan_file.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"

namespace fitstep {
namespace {

// Every field of every record away from its default.
Plan full_plan() {
  Plan plan{.program_hash = "0123456789abcdef", .policy = "a \"policy\"\n", .seed = ~uint64_t{0}};
  plan.certificate = Certificate{.floor_bytes = 1,
                                 .peak_bytes = 2,
                                 .height_bytes = 3,
                                 .capacity_bytes = 4,
                                 .predicted_ps = 5,
                                 .bound_ps = std::numeric_limits<int64_t>::max(),
                                 .bound = "compute",
                                 .moves = "recompute"};
  for (int i = 0; i <= static_cast<int>(Code::Zstd); ++i) {
    plan.residencies.push_back(Residency{.storage = StorageId(i),
                                         .tier = i == 1 ? kExternalTier : TierId(i),
                                         .offset_bytes = 64 * i,
                                         .size_bytes = i,
                                         .code = static_cast<Code>(i),
                                         .is_home = i % 2 == 0});
  }
  Action run;
  run.run = Run{.op = OpId(3),
                .form = 1,
                .reads = {ResidencyId(0), ResidencyId()},
                .writes = {ResidencyId(1)},
                .request_offset_bytes = {64, -1}};
  run.waits = {ActionRef{Lane::Evict, 0}, ActionRef{Lane::Prefetch, 7}};
  run.releases = {ResidencyId(0), ResidencyId(2)};
  Action copy{.kind = Action::Kind::Copy};
  copy.copy = Copy{.source = ResidencyId(1), .target = ResidencyId(2)};
  copy.waits = {ActionRef{Lane::Compute, 1}};
  plan.lane(Lane::Compute) = {run, copy, Action{.run = Run{.op = OpId(0)}}};
  plan.lane(Lane::Evict) = {copy};
  plan.lane(Lane::Prefetch) = {copy, copy};
  plan.lane(Lane::DiskWrite) = {copy};
  plan.lane(Lane::DiskRead) = {copy};
  return plan;
}

TEST(PlanFile, KeepsEveryField) {
  for (const Plan& plan : {full_plan(), Plan()}) {
    const Result<Plan> parsed = parse_plan(print_plan(plan));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(*parsed, plan);
  }
}

TEST(PlanFile, HasOneActionALine) {
  const std::string text = print_plan(full_plan());
  EXPECT_NE(text.find("\n{\"run\": 3, \"form\": 1, \"reads\": [0, -1], \"writes\": [1], "
                      "\"requests\": [64, -1], \"waits\": [{\"lane\": \"evict\", \"position\": 0}, "
                      "{\"lane\": \"prefetch\", \"position\": 7}], \"releases\": [0, 2]},\n"),
            text.npos)
      << text;
}

// So files from before there were disk lanes are read, and plans without any are written as then.
TEST(PlanFile, SaysNothingOfDiskLanesThatAreEmpty) {
  Plan plan = full_plan();
  plan.lane(Lane::DiskWrite).clear();
  plan.lane(Lane::DiskRead).clear();
  const std::string text = print_plan(plan);
  EXPECT_EQ(text.find("disk"), text.npos);
  const Result<Plan> parsed = parse_plan(text);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, plan);
}

TEST(PlanFile, MayBeReformatted) {
  std::string text = print_plan(full_plan());
  std::erase(text, '\n');
  const Result<Plan> parsed = parse_plan(text);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, full_plan());
}

TEST(PlanFile, RefusesAFileThatIsCutOffAnywhere) {
  const std::string text = print_plan(full_plan());
  for (size_t length = 0; length + 2 < text.size(); ++length) {
    EXPECT_FALSE(parse_plan(std::string_view(text).substr(0, length)).has_value()) << length;
  }
}

// Whichever digit somebody changes, in whichever field, the file is refused.
TEST(PlanFile, RefusesEveryEditOfADigit) {
  const std::string text = print_plan(full_plan());
  int edits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') continue;
    std::string edited = text;
    edited[i] = text[i] == '9' ? '8' : static_cast<char>(text[i] + 1);
    EXPECT_FALSE(parse_plan(edited).has_value()) << edited.substr(i < 30 ? 0 : i - 30, 60);
    ++edits;
  }
  EXPECT_GT(edits, 100);  // There was something to edit.
}

struct Edit {
  std::string from;
  std::string to;
  std::string message;
};

TEST(PlanFile, NamesTheFaultyField) {
  const std::vector<Edit> edits = {
      {"\"fitstep\": \"plan\"", "\"fitstep\": \"program\"", "so this is not a plan file"},
      {"\"fitstep\": \"plan\"", "\"x\": 1", "fitstep is missing"},
      {"\"format\": 1", "\"format\": 2", "it has format 2, and this fitstep reads format 1"},
      {"\"format\": 1", "\"format\": \"1\"", "format is not a whole number"},
      {"\"policy\": ", "\"polity\": ", "policy is missing"},
      {"\"seed\": 18446744073709551615", "\"seed\": -1", "seed is not a whole number from 0 on"},
      {"\"peak_bytes\": 2", "\"peak_bytes\": 2.5", "certificate.peak_bytes is not a whole number"},
      {"\"tier\": 1000", "\"tear\": 1000", "residencies[1].tier is missing"},
      {"\"code\": \"zero_value\"", "\"code\": \"zip\"", "residencies[1].code is \"zip\", which is"},
      {"\"home\": true", "\"home\": 1", "residencies[0].home is neither true nor false"},
      {"\"home\": true", "\"home\": true, \"colour\": 1", "residencies[0].colour is unknown"},
      {"{\"run\": 3", "{\"ran\": 3", "compute[0].run is missing"},
      {"{\"run\": 3", "{\"run\": 2147483648", "compute[0].run is 2147483648, outside 0 .. 2147"},
      {"\"reads\": [0, -1]", "\"reads\": [0, -2]", "compute[0].reads is -2, outside -1 .. "},
      {"\"releases\": [0, 2]", "\"releases\": [-1]", "compute[0].releases is negative (-1)"},
      {"\"releases\": [0, 2]", "\"releases\": 3", "compute[0].releases is not a list"},
      {"\"lane\": \"evict\"", "\"lane\": \"left\"", "compute[0].waits[0].lane is \"left\", which"},
      {"\"copy\": [1, 2]", "\"copy\": [1]", "compute[1].copy is not a source and a target"},
      {"\"prefetch\": [", "\"fetch\": [", "prefetch is missing"},
      {"\"size_bytes\": 2", "\"size_bytes\": 5", "so it was edited or damaged"},
      {"\"compute\", \"moves\"", "\"Compute\", \"moves\"", "so it was edited or damaged"},
  };
  for (const Edit& edit : edits) {
    std::string text = print_plan(full_plan());
    const size_t place = text.find(edit.from);
    ASSERT_NE(place, text.npos) << edit.from;
    text.replace(place, edit.from.size(), edit.to);
    const Result<Plan> parsed = parse_plan(text);
    ASSERT_FALSE(parsed.has_value()) << edit.to;
    EXPECT_EQ(parsed.error().code, ErrorCode::BadInput);
    EXPECT_NE(parsed.error().message.find(edit.message), std::string::npos)
        << "wanted: " << edit.message << "\ngot:    " << parsed.error().message;
  }
}

TEST(PlanFile, RefusesJsonThatIsNoPlan) {
  for (const char* text : {"", "null", "[]", "7", "{}", "{\"fitstep\": 7}", "\xff"}) {
    EXPECT_FALSE(parse_plan(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace fitstep

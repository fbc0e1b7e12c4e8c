// Files lose nothing: print, parse, equal, for random programs and plans; and damaged texts.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/plan_file.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/programs/random_program.h"
#include "tests/support/keep_all.h"

namespace fitstep {
namespace {

constexpr uint64_t kTextSeeds = 300;

Program text_case(uint64_t seed) {
  return random_program(seed, {.layers = static_cast<int32_t>(1 + seed % 9)});
}

TEST(TextProperty, ProgramsPrintedAndParsedAreEqual) {
  for (uint64_t seed = 0; seed < kTextSeeds; ++seed) {
    const Program program = text_case(seed);
    const Result<Program> parsed = parse_program(print_program(program));
    ASSERT_TRUE(parsed.has_value()) << "seed " << seed << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, program) << "seed " << seed;
    EXPECT_EQ(hash_program(*parsed), hash_program(program)) << "seed " << seed;
  }
}

TEST(TextProperty, PlansPrintedAndParsedAreEqual) {
  for (uint64_t seed = 0; seed < kTextSeeds; ++seed) {
    const Plan plan = keep_all(text_case(seed));
    const Result<Plan> parsed = parse_plan(print_plan(plan));
    ASSERT_TRUE(parsed.has_value()) << "seed " << seed << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, plan) << "seed " << seed;
  }
}

TEST(TextProperty, AnyBytesMayBeInAName) {
  EXPECT_TRUE(rc::check("names and calls", [](const std::string& name, const std::string& call) {
    Program program{.name = name, .calls = {Call{call}}};
    program.storages.push_back(Storage{.name = call + name});
    program.ops.push_back(Op{.name = name,
                             .source = {.module = call, .file = name, .line = 1},
                             .forms = {Form{.name = call, .call = CallId(0)}}});
    const Result<Program> parsed = parse_program(print_program(program));
    RC_ASSERT(parsed.has_value());
    RC_ASSERT(*parsed == program);
  }));
}

// One byte changed, dropped or doubled: an error, or a program that is what its text says.
TEST(TextProperty, DamagedTextIsAnErrorOrAnotherProgram) {
  std::mt19937_64 random(1);
  int64_t refused = 0;
  int64_t accepted = 0;
  for (uint64_t seed = 0; seed < kTextSeeds; ++seed) {
    const std::string text = print_program(text_case(seed));
    for (int i = 0; i < 40; ++i) {
      std::string damaged = text;
      const size_t place = random() % text.size();
      const auto letter = static_cast<char>(random() % 128);
      if (i % 3 == 0) damaged[place] = letter;
      if (i % 3 == 1) damaged.erase(place, 1);
      if (i % 3 == 2) damaged.insert(place, 1, text[place]);
      const Result<Program> parsed = parse_program(damaged);
      ++(parsed.has_value() ? accepted : refused);
      if (!parsed.has_value()) continue;
      EXPECT_TRUE(validate(*parsed).has_value());
      EXPECT_EQ(parse_program(print_program(*parsed)).value(), *parsed);
    }
  }
  EXPECT_GT(refused, accepted);  // Names, times and flops may be anything; most else may not.
}

TEST(TextProperty, DamagedPlansAreRefused) {
  std::mt19937_64 random(1);
  for (uint64_t seed = 0; seed < kTextSeeds; ++seed) {
    const Plan plan = keep_all(text_case(seed));
    const std::string text = print_plan(plan);
    for (int i = 0; i < 10; ++i) {
      std::string damaged = text;
      damaged[random() % text.size()] ^= static_cast<char>(1 + random() % 127);
      const Result<Plan> parsed = parse_plan(damaged);
      // Blanks between words are the only bytes that do not matter.
      if (!parsed.has_value()) continue;
      EXPECT_EQ(*parsed, plan) << "seed " << seed;
    }
  }
}

// Bytes at every tick by the definition, on programs without scratch: what is born and not yet
// dead.
TEST(LivenessProperty, IsTheSumOfWhatIsLive) {
  for (uint64_t seed = 0; seed < kTextSeeds; ++seed) {
    const Program program = random_program(seed, {.layers = 4, .with_scratch = false});
    const std::vector<Interval> lifetime = lifetimes(program);
    int64_t peak = 0;
    int64_t recorded_peak = 0;
    for (size_t tick = 0; tick < program.ops.size(); ++tick) {
      const auto covers = [tick](const Interval& interval) {
        return interval.begin <= static_cast<Tick>(tick) && static_cast<Tick>(tick) < interval.end;
      };
      int64_t live = 0;
      int64_t recorded = 0;
      for (size_t i = 0; i < program.storages.size(); ++i) {
        const Storage& storage = program.storages[i];
        if (!is_external(storage.kind) && covers(lifetime[i])) live += storage.size_bytes;
        const bool is_tensor = storage.kind != StorageKind::Generator;
        if (is_tensor && covers(storage.recorded)) recorded += storage.size_bytes;
      }
      EXPECT_EQ(live_bytes(program, /*with_external=*/false)[tick], live) << "seed " << seed;
      peak = std::max(peak, live);
      recorded_peak = std::max(recorded_peak, recorded);
    }
    EXPECT_EQ(peak_bytes(program, /*with_external=*/false), peak) << "seed " << seed;
    EXPECT_EQ(plain_peak_bytes(program), recorded_peak) << "seed " << seed;
  }
}

}  // namespace
}  // namespace fitstep

#include "cli/budget.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "fitstep/base/result.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

// 100,000 bytes that are held for the whole step; of them 1,000 belong to the caller.
Program test_program() {
  Program program;
  program.storages = {{.name = "x",
                       .size_bytes = 1000,
                       .kind = StorageKind::Input,
                       .has_content_at_start = true,
                       .recorded = {.begin = 0, .end = 1}},
                      {.name = "a0", .size_bytes = 99'000, .recorded = {.begin = 0, .end = 1}},
                      {.name = "dice", .size_bytes = 16, .kind = StorageKind::Generator}};
  program.ops.push_back({.name = "f0", .forms = {{}}});
  return program;
}

TEST(Budget, LeavesToTheArenaWhatCompileWould) {
  const Budget budget = split_budget(200'000, test_program());
  EXPECT_EQ(budget.plain_peak_bytes, 100'000);
  EXPECT_EQ(budget.external_bytes, 1000);     // Not the generator's: it takes no memory of a step.
  EXPECT_EQ(budget.reserve_bytes, 1984);      // 2000, aligned to 64.
  EXPECT_EQ(budget.host_bytes, 256);          // 200, but at least 256.
  EXPECT_EQ(budget.capacity_bytes, 196'736);  // 200,000 - 1000 - 1984 - 256 = 196,760, aligned.
  EXPECT_EQ(split_budget(int64_t{1} << 30, test_program()).host_bytes, 65'536);  // At most.
}

TEST(Budget, IsASizeOrAShareOfThePlainPeak) {
  EXPECT_EQ(parse_budget("75%", test_program()).value().budget_bytes, 75'000);
  EXPECT_EQ(parse_budget("12.5%", test_program()).value().budget_bytes, 12'500);
  EXPECT_EQ(parse_budget("64KiB", test_program()).value().budget_bytes, 65'536);
  for (const std::string bad :
       {"0%", "-5%", "1001%", "%", "x%", "7 5%", "nan%", "0", "6 Gibi", ""}) {
    EXPECT_FALSE(parse_budget(bad, test_program()).has_value()) << bad;
  }
}

TEST(Budget, ForAHeightIsTheLeastThatHoldsIt) {
  const int64_t external_bytes = split_budget(1000, test_program()).external_bytes;
  for (const int64_t height_bytes : {64, 6408, 64'000, 640'000, 6'400'000}) {
    const int64_t budget_bytes = budget_for(height_bytes, external_bytes);
    EXPECT_GE(split_budget(budget_bytes, test_program()).capacity_bytes, height_bytes);
    EXPECT_LT(split_budget(budget_bytes - 1, test_program()).capacity_bytes, height_bytes);
  }
}

}  // namespace
}  // namespace fitstep

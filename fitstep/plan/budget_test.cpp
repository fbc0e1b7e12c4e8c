#include "fitstep/plan/budget.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

TEST(Budget, LeavesToTheArenaWhatIsNotForSomethingElse) {
  const Budget budget = split_budget(200'000, {.external_bytes = 1000});
  EXPECT_EQ(budget.reserve_bytes, 1984);      // 2000, aligned to 64.
  EXPECT_EQ(budget.small_tensor_bytes, 256);  // 200, but at least 256.
  EXPECT_EQ(budget.staging_bytes, 0);         // No files.
  EXPECT_EQ(budget.capacity_bytes, 196'736);  // 200,000 - 1000 - 1984 - 256 = 196,760, aligned.
  EXPECT_EQ(split_budget(int64_t{1} << 30, {}).small_tensor_bytes, 65'536);  // At most.
  const Budget with_disk = split_budget(200'000, {.pieces = kStagingOfEvicted});
  EXPECT_EQ(with_disk.staging_bytes, 4 * 4096);  // 500 bytes each, but a block at least.
}

TEST(Budget, IsNegativeInsideWhereTheRestIsMore) {
  EXPECT_EQ(split_budget(1000, {.external_bytes = 5000}).capacity_bytes, -4256);
}

TEST(Budget, PiecesAreOfWholeBlocksAndNeverMoreThanAMebibyte) {
  EXPECT_EQ(piece_bytes(0), 4096);
  EXPECT_EQ(piece_bytes(5'000'000), 12'288);  // 12,500.
  EXPECT_EQ(piece_bytes(int64_t{1} << 40), 1 << 20);
}

TEST(Budget, IsASizeOrAShareOfThePlainPeak) {
  const auto of = [](const std::string& text) { return parse_budget(text, "x").value().of(1000); };
  EXPECT_EQ(of("75%"), 750);
  EXPECT_EQ(of(" 12.5 % "), 125);
  EXPECT_EQ(of("1e2%"), 1000);
  EXPECT_EQ(of("64KiB"), 65'536);
  EXPECT_EQ(of("4096"), 4096);
  EXPECT_EQ(WrittenBudget().of(1000), 0);
}

TEST(Budget, SaysWhatWasGivenAndWhyItIsNone) {
  for (const std::string bad : {"0%", "-5%", "1001%", "%", "x%", "7 5%", "nan%", "inf%", "0",
                                "6 Gibi", "", " ", "-1", "1e3", "300TiB", "2000PiB"}) {
    const Result<WrittenBudget> parsed = parse_budget(bad, "--budget " + bad);
    ASSERT_FALSE(parsed.has_value()) << bad;
    EXPECT_TRUE(parsed.error().message.starts_with("--budget " + bad)) << parsed.error().message;
  }
}

TEST(Budget, ForAHeightIsTheLeastThatHoldsIt) {
  for (const int32_t pieces : {0, kStagingOfEvicted, kStagingOfEvicted + kStagingOfHomes}) {
    for (const int64_t external_bytes : {0, 8, 1003}) {
      const BesideArena beside{.external_bytes = external_bytes, .pieces = pieces};
      for (const int64_t height_bytes : {64, 6408, 64'000, 640'001, 6'400'000, 640'000'000}) {
        const int64_t least_bytes = budget_for(height_bytes, beside);
        EXPECT_GE(split_budget(least_bytes, beside).capacity_bytes, height_bytes);
        for (int64_t less = 1; less < 200; ++less) {
          EXPECT_LT(split_budget(least_bytes - less, beside).capacity_bytes, height_bytes);
        }
      }
    }
  }
}

TEST(Budget, OfAProgramCountsWhatHasNoAddressOfOurs) {
  Program program;
  program.storages = {{.name = "x", .size_bytes = 1000, .kind = StorageKind::Input},
                      {.name = "a0", .size_bytes = 99'000},
                      {.name = "dice", .size_bytes = 16, .kind = StorageKind::Generator}};
  EXPECT_EQ(external_bytes(program), 1000);  // Not the generator's: it takes no memory of a step.
  Machine machine{.name = "m", .threads = 1, .tiers = {{.name = "device"}, {.name = "host"}}};
  EXPECT_EQ(beside_arena(program, machine).pieces, 0);
  machine.tiers.push_back({.name = "disk"});
  EXPECT_EQ(beside_arena(program, machine).pieces, kStagingOfEvicted);
  EXPECT_EQ(beside_arena(program, machine).external_bytes, 1000);
}

}  // namespace
}  // namespace fitstep

#include "fitstep/program/resized.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fitstep/program/text.h"

namespace fitstep {
namespace {

// A weight of 10 bytes, rows of 4 bytes, a result of 4 bytes a row and 1 more, workspace of 2 a
// row, and 3 ps a row beside 5 ps.
Program step_with(int64_t rows) {
  const std::string text =
      "fitstep program 1\n"
      "storage 0 \"w\" 10 parameter persistent start\n"
      "storage 1 \"x\" 1 input start\n"
      "storage 2 \"y\" 1 temporary\n"
      "op 0 \"f\" matmul\n"
      "form \"default\" reads 0.0 1.0 writes 2.1\n"
      "end calls 0 storages 3 ops 1\n";
  Result<Program> made = parse_program(text);
  EXPECT_TRUE(made.has_value());
  made->storages[1].size_bytes = 4 * rows;
  made->storages[2].size_bytes = 4 * rows + 1;
  Form& form = made->ops[0].forms[0];
  form.time_ps = 5 + 3 * rows;
  form.requests = {{.size_bytes = 4 * rows + 1, .live = {0, 3}, .output = StorageId(2)},
                   {.size_bytes = 2 * rows, .live = {1, 2}}};
  return std::move(made).value();
}

TEST(Resized, IsTheProgramOfTheOtherBatch) {
  const Program two = step_with(2);
  const Program five = step_with(5);
  for (const int64_t rows : {1, 2, 3, 5, 9, 100}) {
    const Result<Program> made = resized({two, 2}, {five, 5}, rows);
    ASSERT_TRUE(made.has_value());
    EXPECT_EQ(*made, step_with(rows)) << rows;
    EXPECT_EQ(*resized({five, 5}, {two, 2}, rows), step_with(rows)) << rows;
  }
}

TEST(Resized, RefusesProgramsOfOtherOpsAndHomesThatGrow) {
  const Program two = step_with(2);
  Program other = step_with(5);
  other.ops[0].name = "g";
  EXPECT_FALSE(resized({two, 2}, {other, 5}, 3).has_value());
  other = step_with(5);
  other.storages[0].size_bytes = 11;
  EXPECT_FALSE(resized({two, 2}, {other, 5}, 3).has_value());
  EXPECT_FALSE(resized({two, 2}, {two, 2}, 3).has_value());
}

TEST(Resized, TakesTheRequestsOfTheLargerBatchWhereTheyDiffer) {
  const Program two = step_with(2);
  Program five = step_with(5);
  five.ops[0].forms[0].requests.push_back({.size_bytes = 7, .live = {2, 3}});
  const Result<Program> made = resized({two, 2}, {five, 5}, 9);
  ASSERT_TRUE(made.has_value());
  const std::vector<Request>& requests = made->ops[0].forms[0].requests;
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[0].size_bytes, 4 * 9 + 1);  // The result's.
  EXPECT_EQ(requests[1].size_bytes, 2 * 5);
}

TEST(Guessed, GrowsWhatIsAMultipleOfTheBatch) {
  const Program seven = step_with(7);
  const Program made = guessed({seven, 7}, 21);
  EXPECT_EQ(made.storages[0].size_bytes, 10);      // A home.
  EXPECT_EQ(made.storages[1].size_bytes, 4 * 21);  // 28 is a multiple of 7.
  EXPECT_EQ(made.storages[2].size_bytes, 29);      // No multiple: taken to be fixed.
  EXPECT_EQ(made.ops[0].forms[0].requests[1].size_bytes, 2 * 21);
}

TEST(LargestAccess, IsTheLargerOfReadsAndWrites) {
  OpId op;
  EXPECT_EQ(largest_access_bytes(step_with(5), &op), 10 + 20);  // w and x; y has 21.
  EXPECT_EQ(op, OpId(0));
}

}  // namespace
}  // namespace fitstep

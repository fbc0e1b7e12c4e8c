#include "fitstep/base/range_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/random.h"

namespace fitstep {
namespace {

//   place    0  1  2  3  4        after adding -4 to [1, 4)
//            5  3  8  3  9        5 -1  4 -1  9
TEST(RangeTree, FindsTheLeftmostOfTheLeast) {
  RangeTree tree;
  tree.assign(std::vector<int64_t>{5, 3, 8, 3, 9});
  EXPECT_EQ(tree.least_below(0, 5, 100), 1);
  EXPECT_EQ(tree.least_below(2, 5, 100), 3);
  EXPECT_EQ(tree.least_below(0, 5, 3), -1);  // None below 3.
  tree.add(1, 4, -4);
  EXPECT_EQ(tree.at(2), 4);
  EXPECT_EQ(tree.least(), -1);
  EXPECT_EQ(tree.least(2, 3), 4);  // 8 - 4.
  EXPECT_EQ(tree.least(3, 3), RangeTree::kNothing);
  EXPECT_EQ(tree.least_below(2, 3, 5), 2);
  tree.add_to_all(1);
  EXPECT_EQ(tree.at(0), 6);
  EXPECT_EQ(tree.least(), 0);
}

TEST(RangeTree, AgreesWithAList) {
  Random random(3);
  std::vector<int64_t> list(37);
  for (int64_t& bytes : list) bytes = static_cast<int64_t>(random.next() % 20);
  RangeTree tree;
  tree.assign(list);
  for (int i = 0; i < 1000; ++i) {
    const size_t begin = random.next() % list.size();
    const size_t end = begin + 1 + random.next() % (list.size() - begin);
    const auto bytes = static_cast<int64_t>(random.next() % 9) - 4;
    for (size_t k = begin; k < end; ++k) list[k] += bytes;
    tree.add(static_cast<int32_t>(begin), static_cast<int32_t>(end), bytes);
    const size_t first = random.next() % list.size();
    const auto least = std::min_element(list.begin() + static_cast<int64_t>(first), list.end());
    const auto at = static_cast<int32_t>(least - list.begin());
    const auto last = static_cast<int32_t>(list.size());
    ASSERT_EQ(tree.least_below(static_cast<int32_t>(first), last, *least + 1), at);
    ASSERT_EQ(tree.at(at), *least);
    ASSERT_EQ(tree.least(static_cast<int32_t>(first), last), *least);
    ASSERT_EQ(tree.least(), *std::ranges::min_element(list));
  }
}

}  // namespace
}  // namespace fitstep

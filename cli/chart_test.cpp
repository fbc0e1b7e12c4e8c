#include "cli/chart.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fitstep {
namespace {

TEST(Chart, TakesTheMostOfNeighbours) {
  EXPECT_EQ(most_of_each({1, 5, 2, 2, 7}, 2), (std::vector<int64_t>{5, 7}));  // Three and two.
  EXPECT_EQ(most_of_each({1, 5}, 10), (std::vector<int64_t>{1, 5}));
  EXPECT_EQ(most_of_each({}, 10), (std::vector<int64_t>{}));
}

TEST(Chart, HasLevelsOfTheHighest) {
  // Two rows: 2^62 / 2 and 2^62, without overflow.
  const int64_t most = int64_t{1} << 62;
  EXPECT_EQ(draw_chart({most / 2, most, most / 2 - 1}, 2),
            "  4096.00 PiB | #\n  2048.00 PiB |##\n              +---\n");
  EXPECT_EQ(draw_chart({0, 0}, 2), "(no bytes are ever live)\n");
}

TEST(Chart, DrawsACurveOverItsBound) {
  // Steps of one: a column reaches a row from half a step below it on. The second has no plan.
  const std::vector<CurveColumn> columns = {{.value = 3, .bound = 1}, {}, {.value = 2, .bound = 2}};
  const auto label = [](int64_t value) { return std::to_string(value) + " s"; };
  EXPECT_EQ(draw_curve(columns, 3, label),
            "          3 s |+\n"
            "          2 s |+ #\n"
            "          1 s |# #\n"
            "              +---\n");
  EXPECT_EQ(draw_curve({{}, {}}, 3, label), "");
}

}  // namespace
}  // namespace fitstep

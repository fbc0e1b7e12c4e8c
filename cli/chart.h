// The pyramid as text: bytes upwards, ticks to the right.
//
//     3 B |    ####
//     2 B |  ########
//     1 B |############
//         +------------
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fitstep {

// Of most charts.
inline constexpr size_t kChartColumns = 72;
inline constexpr int kChartRows = 12;

// Shortens `values` to at most `columns` numbers: each is the maximum of equally many neighbours
// (the last number of those that are left).
std::vector<int64_t> most_of_each(const std::vector<int64_t>& values, size_t columns);

// `height` rows; one column per value. A column fills a row if its value is at least the row's
// label, so a small value may show no '#' at all.
std::string draw_chart(const std::vector<int64_t>& values, int height);

// One column of a curve: a value and its lower bound. Negative: nothing is drawn.
struct CurveColumn {
  int64_t value = -1;
  int64_t bound = -1;
};

// `height` rows from 0 to the largest value: '#' up to the bound, '+' from the bound to the value.
// `label` writes the number in front of a row.
//
//     3 s |+
//     2 s |++++
//     1 s |##########
//         +----------
std::string draw_curve(const std::vector<CurveColumn>& columns, int height,
                       const std::function<std::string(int64_t)>& label);

}  // namespace fitstep

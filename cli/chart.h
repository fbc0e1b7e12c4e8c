// The pyramid as text: bytes upwards, ticks to the right.
//
//     3 B |    ####
//     2 B |  ########
//     1 B |############
//         +------------
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fitstep {

// At most `columns` numbers: each the most of equally many neighbours (the last of those left).
std::vector<int64_t> most_of_each(const std::vector<int64_t>& values, size_t columns);

// `height` rows of one column per value. A column reaches a row if its value reaches that row's
// label, so what is not zero but small may not be seen.
std::string draw_chart(const std::vector<int64_t>& values, int height);

// One column of a curve: a height, and one that it cannot fall below. Negative: not there.
struct CurveColumn {
  int64_t value = -1;
  int64_t bound = -1;
};

// `height` rows from 0 to the highest: '#' up to the bound, '+' from there up to the value. Rows
// are labelled by `label`.
//
//     3 s |+
//     2 s |++++
//     1 s |##########
//         +----------
std::string draw_curve(const std::vector<CurveColumn>& columns, int height,
                       const std::function<std::string(int64_t)>& label);

}  // namespace fitstep

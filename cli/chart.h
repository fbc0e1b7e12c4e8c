// The pyramid as text: bytes upwards, ticks to the right.
//
//     3 B |    ####
//     2 B |  ########
//     1 B |############
//         +------------
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fitstep {

// At most `columns` numbers: each the most of equally many neighbours (the last of those left).
std::vector<int64_t> most_of_each(const std::vector<int64_t>& values, size_t columns);

// `height` rows of one column per value. A column reaches a row if its value reaches that row's
// label, so what is not zero but small may not be seen.
std::string draw_chart(const std::vector<int64_t>& values, int height);

}  // namespace fitstep

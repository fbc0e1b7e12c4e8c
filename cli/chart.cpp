#include "cli/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/base/bytes.h"

namespace fitstep {

std::vector<int64_t> most_of_each(const std::vector<int64_t>& values, size_t columns) {
  std::vector<int64_t> most;
  const size_t share = std::max<size_t>(1, (values.size() + columns - 1) / columns);
  for (size_t begin = 0; begin < values.size(); begin += share) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin);
    const size_t count = std::min(share, values.size() - begin);
    most.push_back(*std::max_element(first, first + static_cast<std::ptrdiff_t>(count)));
  }
  return most;
}

std::string draw_chart(const std::vector<int64_t>& values, int height) {
  const int64_t peak = values.empty() ? 0 : std::ranges::max(values);
  if (peak <= 0) return "(no bytes are ever live)\n";
  const auto rows = std::min<int64_t>(height, peak);  // Few bytes: a row for each.
  std::string chart;
  for (int64_t row = rows; row >= 1; --row) {
    const int64_t level = peak / rows * row + peak % rows * row / rows;  // peak * row overflows.
    std::string line = fmt::format("  {:>11} |", format_bytes(level));
    for (const int64_t value : values) line += value >= level ? '#' : ' ';
    line.erase(line.find_last_not_of(' ') + 1);
    chart += line + "\n";
  }
  return chart + fmt::format("  {:>11} +{}\n", "", std::string(values.size(), '-'));
}

}  // namespace fitstep

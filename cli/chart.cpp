#include "cli/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
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
  const auto rows = std::min<int64_t>(height, peak);  // At most one row per byte.
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

std::string draw_curve(const std::vector<CurveColumn>& columns, int height,
                       const std::function<std::string(int64_t)>& label) {
  int64_t most = 0;
  for (const CurveColumn& column : columns) most = std::max(most, column.value);
  if (most == 0) return "";
  std::string chart;
  for (int row = height; row >= 1; --row) {
    // A column fills a row if its value is above the middle of the row's range.
    const double level = static_cast<double>(most) * (row - 0.5) / height;
    const auto reaches = [&](int64_t value) { return static_cast<double>(value) >= level; };
    const auto top = static_cast<int64_t>(static_cast<double>(most) * row / height);
    std::string line = fmt::format("  {:>11} |", label(top));
    for (const CurveColumn& column : columns) {
      line += reaches(column.bound) ? '#' : reaches(column.value) ? '+' : ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    chart += line + "\n";
  }
  return chart + fmt::format("  {:>11} +{}\n", "", std::string(columns.size(), '-'));
}

}  // namespace fitstep

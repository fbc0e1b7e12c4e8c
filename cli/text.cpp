#include "cli/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

std::string format_seconds(int64_t time_ps) {
  constexpr std::array<const char*, 5> kUnits = {"s", "ms", "us", "ns", "ps"};
  double amount = static_cast<double>(time_ps) * 1e-12;
  if (time_ps == 0) return "0 s";
  size_t unit = 0;
  while (std::fabs(amount) < 0.99995 && unit + 1 < kUnits.size()) {
    amount *= 1000;
    ++unit;
  }
  const double size = std::fabs(amount);
  const int decimals = size < 9.9995 ? 3 : size < 99.995 ? 2 : size < 999.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", amount, decimals, kUnits[unit]);
}

std::string format_share(int64_t part, int64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string format_ratio(int64_t number, int64_t base) {
  if (base == 0) return "-";
  return fmt::format("{:.3f}x", static_cast<double>(number) / static_cast<double>(base));
}

std::string format_count(size_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string place_of(const Op& op) {
  if (!op.source.module.empty()) return op.name + " in " + op.source.module;
  return op.source.file.empty() ? op.name : fmt::format("{} ({})", op.name, source_of(op));
}

std::string source_of(const Op& op) {
  return op.source.file.empty() ? "" : fmt::format("{}:{}", op.source.file, op.source.line);
}

std::string shortened(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  const auto is_inside_letter = [&](size_t at) {  // A letter of UTF-8 must not be cut.
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  size_t head = (most - 3) / 2;
  size_t tail = text.size() - (most - 3 - head);
  while (head > 0 && is_inside_letter(head)) --head;
  while (tail < text.size() && is_inside_letter(tail)) ++tail;
  return text.substr(0, head) + "..." + text.substr(tail);
}

std::string hang(const std::string& text, size_t indent) {
  std::string hung;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find("; ", begin), text.size());
    if (begin > 0) hung += "\n" + std::string(indent, ' ');
    hung += text.substr(begin, end - begin);
    begin = end + 2;
  }
  return hung;
}

std::string hang_bound(std::string bound, size_t indent) {
  const size_t scope = bound.find(" (");
  if (scope != bound.npos) bound.insert(scope, ";");
  return hang(bound, indent);
}

Json to_json(const Certificate& certificate) {
  return {{"floor_bytes", certificate.floor_bytes},
          {"peak_bytes", certificate.peak_bytes},
          {"height_bytes", certificate.height_bytes},
          {"capacity_bytes", certificate.capacity_bytes},
          {"predicted_ps", certificate.predicted_ps},
          {"bound_ps", certificate.bound_ps},
          {"bound", certificate.bound},
          {"moves", certificate.moves}};
}

std::string to_text(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace fitstep

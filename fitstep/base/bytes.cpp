#include "fitstep/base/bytes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "fitstep/base/result.h"

namespace fitstep {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 60;
constexpr size_t kMostDecimals = 6;  // Decimals times a unit fit 64 bits.

struct Unit {
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<Unit, 10> kUnits = {{
    {"", 1},
    {"B", 1},
    {"KiB", int64_t{1} << 10},
    {"MiB", int64_t{1} << 20},
    {"GiB", int64_t{1} << 30},
    {"TiB", int64_t{1} << 40},
    {"KB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
}};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

std::string_view take_digits(std::string_view& text) {
  size_t count = 0;
  while (count < text.size() && is_digit(text[count])) ++count;
  const std::string_view digits = text.substr(0, count);
  text.remove_prefix(count);
  return digits;
}

}  // namespace

Result<int64_t> parse_bytes(std::string_view text) {
  const auto error = [whole = std::string(text)](std::string_view why) {
    return Error{ErrorCode::BadInput,
                 fmt::format("cannot read \"{}\" as bytes: {}; write for example 6GiB, 512MiB, "
                             "1.5GB or 4096",
                             whole, why)};
  };
  if (text.empty()) return error("it is empty");
  if (text[0] == '-') return error("it is negative");
  const std::string_view digits = take_digits(text);
  if (digits.empty()) return error("it does not begin with a number");
  std::string decimals;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    decimals = take_digits(text);
    if (decimals.empty()) return error("no digit follows the point");
    if (decimals.size() > kMostDecimals) return error("it has more than six decimals");
  }
  if (text.starts_with(' ')) text.remove_prefix(1);

  const Unit* unit = nullptr;
  for (const Unit& candidate : kUnits) {
    if (candidate.name == text) unit = &candidate;
  }
  if (unit == nullptr) return error(fmt::format("\"{}\" is not a unit", text));

  int64_t whole = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), whole);
  if (parsed.ec != std::errc() || whole > kMostBytes / unit->bytes) {
    return error("it is more than 2^60 bytes");
  }
  int64_t part = 0;  // Decimals of the unit, in millionths.
  decimals.resize(kMostDecimals, '0');
  for (const char decimal : decimals) part = part * 10 + (decimal - '0');
  const int64_t bytes = whole * unit->bytes + part * unit->bytes / 1'000'000;
  if (bytes > kMostBytes) return error("it is more than 2^60 bytes");
  return bytes;
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array<std::string_view, 5> kNames = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes > -1024 && bytes < 1024) return fmt::format("{} B", bytes);
  double amount = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.999 MiB must not be printed as 1024.00 MiB.
  while (std::fabs(amount) >= 1023.995 && unit + 1 < kNames.size()) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{:.2f} {}", amount, kNames[unit]);
}

}  // namespace fitstep

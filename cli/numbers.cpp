#include "cli/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>

namespace fitstep {
namespace {

template <typename Number>
bool read_whole(const std::string& text, Number& number) {
  const char* end = std::to_address(text.end());
  const auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

}  // namespace

CLI::Validator number_from(double least, double most) {
  const std::string wanted = fmt::format("a number from {} to {}", least, most);
  return {[=](std::string& text) {
            double number = 0;
            // nan fails both comparisons.
            if (read_whole(text, number) && number >= least && number <= most) return std::string();
            return fmt::format("{} is not {}", text, wanted);
          },
          ""};
}

CLI::Validator seed_number() {
  return {[](std::string& text) {
            uint64_t number = 0;
            if (read_whole(text, number)) return std::string();
            return fmt::format("{} is not a whole number from 0 to 2^64 - 1", text);
          },
          ""};
}

}  // namespace fitstep

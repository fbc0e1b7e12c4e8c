#include "cli/block_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/layout.h"

namespace fitstep {
namespace {

constexpr int64_t kMost = int64_t{1} << 60U;     // Largest size or tick.
constexpr int64_t kMostSum = int64_t{1} << 62U;  // Largest sum of sizes: no height overflows.
constexpr std::array<std::string_view, 4> kColumns = {"id", "lower", "upper", "size"};

Error at_line(size_t line, const std::string& message) {
  return Error{ErrorCode::BadInput, fmt::format("line {}: {}", line, message)};
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(trim(text.substr(begin, end - begin)));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

// Text from a user's file: shortened, with '?' for each byte that cannot be printed.
std::string quoted(std::string_view text) {
  constexpr size_t kShown = 40;
  std::string shown;
  for (const char c : text.substr(0, kShown)) shown += c < ' ' || c > '~' ? '?' : c;
  return fmt::format("\"{}{}\"", shown, text.size() > kShown ? "..." : "");
}

// Where each of kColumns is among the fields of a line.
using Header = std::array<size_t, kColumns.size()>;

Result<Header> parse_header(std::string_view line) {
  Header header{};
  header.fill(kColumns.size());
  const std::vector<std::string_view> names = split(line, ',');
  for (size_t i = 0; i < names.size(); ++i) {
    const auto* column = std::ranges::find(kColumns, names[i]);
    if (column == kColumns.end()) {
      return at_line(1, fmt::format("{} is not a column; the columns are id, lower, upper and size",
                                    quoted(names[i])));
    }
    size_t& place = header[static_cast<size_t>(std::distance(kColumns.begin(), column))];
    if (place != kColumns.size())
      return at_line(1, fmt::format("column {} is named twice", *column));
    place = i;
  }
  for (size_t i = 0; i < header.size(); ++i) {
    if (header[i] != kColumns.size()) continue;
    return at_line(1,
                   fmt::format("no column {}; the first line must name id, lower, upper and size",
                               kColumns[i]));
  }
  return header;
}

Result<int64_t> parse_number(std::string_view text, std::string_view column, size_t line) {
  int64_t number = 0;
  const char* begin = std::to_address(text.begin());
  const char* end = std::to_address(text.end());
  const auto [rest, code] = std::from_chars(begin, end, number);
  if (text.empty() || rest != end || code == std::errc::invalid_argument) {
    return at_line(line, fmt::format("{} is {}, not a whole number", column, quoted(text)));
  }
  if (code != std::errc() || number > kMost || number < -kMost) {
    return at_line(line, fmt::format("{} is {}, not from -2^60 to 2^60", column, quoted(text)));
  }
  return number;
}

Result<Block> parse_block(const std::vector<std::string_view>& fields, const Header& header,
                          size_t line) {
  std::array<int64_t, kColumns.size()> numbers{};
  for (size_t i = 1; i < kColumns.size(); ++i) {
    FITSTEP_TRY(numbers[i], parse_number(fields[header[i]], kColumns[i], line));
  }
  const Block block{.size_bytes = numbers[3], .live = {.begin = numbers[1], .end = numbers[2]}};
  if (block.size_bytes < 0) {
    return at_line(line, fmt::format("size is {}; it cannot be negative", block.size_bytes));
  }
  if (block.live.end < block.live.begin) {
    return at_line(line,
                   fmt::format("upper {} is below lower {}", block.live.end, block.live.begin));
  }
  return block;
}

}  // namespace

Result<BlockFile> parse_blocks(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.empty()) return at_line(1, "it must name the columns id, lower, upper and size");
  FITSTEP_TRY(const Header header, parse_header(lines[0]));
  BlockFile file;
  int64_t sum_bytes = 0;
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string_view> fields = split(lines[i], ',');
    if (fields.size() != kColumns.size()) {
      return at_line(i + 1, fmt::format("{} fields, and the first line names {} columns{}",
                                        fields.size(), kColumns.size(),
                                        i + 1 == lines.size() ? "; is the file cut off?" : ""));
    }
    if (fields[header[0]].empty()) return at_line(i + 1, "id is empty");
    FITSTEP_TRY(const Block block, parse_block(fields, header, i + 1));
    sum_bytes += block.size_bytes;
    if (sum_bytes > kMostSum) return at_line(i + 1, "the sizes up to here exceed 2^62 together");
    file.ids.emplace_back(fields[header[0]]);
    file.blocks.push_back(block);
  }
  return file;
}

std::string print_offsets(const BlockFile& file, const std::vector<int64_t>& offset_bytes) {
  std::string text = "id,lower,upper,size,offset\n";
  for (size_t i = 0; i < file.blocks.size(); ++i) {
    const Block& block = file.blocks[i];
    fmt::format_to(std::back_inserter(text), "{},{},{},{},{}\n", file.ids[i], block.live.begin,
                   block.live.end, block.size_bytes, offset_bytes[i]);
  }
  return text;
}

}  // namespace fitstep

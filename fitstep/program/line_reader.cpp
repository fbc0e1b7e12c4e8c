#include "fitstep/program/line_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#include "fitstep/base/result.h"

namespace fitstep {
namespace {

bool is_blank(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }

// -1 for a character that is no hexadecimal digit.
int hex_digit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return -1;
}

// A word from a file, fit for a message: shortened, control characters replaced.
std::string shown(std::string_view word) {
  constexpr size_t kMost = 40;
  std::string text(word.substr(0, kMost));
  std::ranges::replace_if(text, [](char letter) { return letter >= 0 && letter < ' '; }, '?');
  return text;
}

// Number of words that start in line[0, read]: the number, from 1, of the word being read.
int64_t count_words(std::string_view line, size_t read) {
  int64_t words = 0;
  bool is_inside = false;
  bool is_quoted = false;
  for (size_t i = 0; i < line.size() && i <= read; ++i) {
    if (!is_inside && !is_blank(line[i])) {
      ++words;
      is_inside = true;
      is_quoted = line[i] == '"';
    } else if (is_quoted && line[i] == '\\') {
      ++i;
    } else if (is_quoted && line[i] == '"') {
      is_quoted = false;
    } else if (is_inside && !is_quoted && is_blank(line[i])) {
      is_inside = false;
    }
  }
  return words;
}

}  // namespace

LineReader::LineReader(std::string_view line, int64_t line_number)
    : line_(line), rest_(line), last_(line), line_number_(line_number) {
  skip_blanks();
}

bool LineReader::is_number_next() const {
  if (!fault_.empty()) return false;  // The word that caused the fault may still be next.
  return !rest_.empty() && (rest_[0] == '-' || (rest_[0] >= '0' && rest_[0] <= '9'));
}

bool LineReader::accept(std::string_view word) {
  if (current_word() != word) return false;
  last_ = rest_;
  rest_.remove_prefix(word.size());
  skip_blanks();
  return true;
}

bool LineReader::accept(char letter) {
  if (rest_.empty() || rest_[0] != letter) return false;
  rest_.remove_prefix(1);
  return true;
}

std::string_view LineReader::word(std::string_view what) {
  const std::string_view word = current_word();
  if (word.empty()) fail(fmt::format("expected {}", what));
  return accept(word) ? word : std::string_view();
}

std::string LineReader::quoted(std::string_view what) {
  std::string content;
  last_ = rest_;
  if (rest_.empty() || rest_[0] != '"') {
    fail(fmt::format("expected {} in quotes", what));
    return content;
  }
  size_t i = 1;
  for (; i < rest_.size() && rest_[i] != '"'; ++i) {
    if (rest_[i] != '\\') {
      content += rest_[i];
      continue;
    }
    const char escape = ++i < rest_.size() ? rest_[i] : '\0';
    const int high = escape == 'x' && i + 2 < rest_.size() ? hex_digit(rest_[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(rest_[i + 2]) : -1;
    if (escape == '"' || escape == '\\') {
      content += escape;
    } else if (escape == 'n') {
      content += '\n';
    } else if (escape == 't') {
      content += '\t';
    } else if (low >= 0) {
      content += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      fail("an escape is one of \\\" \\\\ \\n \\t \\x00");
      return {};
    }
  }
  if (i >= rest_.size()) {
    fail(fmt::format("{} has no closing quote", what));
    return {};
  }
  rest_.remove_prefix(i + 1);
  end_word();
  return content;
}

int64_t LineReader::number(std::string_view what) {
  int64_t number = 0;
  last_ = rest_;
  const char* begin = rest_.data();
  const auto [end, error] = std::from_chars(begin, begin + rest_.size(), number);
  if (error == std::errc::result_out_of_range) {
    fail(fmt::format("{} does not fit 64 bits", what));
    return 0;
  }
  if (error != std::errc()) {
    fail(fmt::format("expected {}, a whole number", what));
    return 0;
  }
  rest_.remove_prefix(static_cast<size_t>(end - begin));
  return number;
}

int32_t LineReader::small_number(std::string_view what) {
  constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t number = this->number(what);
  if (number >= kLeast && number <= kMost) return static_cast<int32_t>(number);
  fail_back(fmt::format("{} does not fit 32 bits", what));
  return 0;
}

void LineReader::expect(char letter, std::string_view what) {
  if (!accept(letter)) fail_back(fmt::format("expected '{}' in {}", letter, what));
}

void LineReader::end_word() {
  if (!rest_.empty() && !is_blank(rest_[0])) fail("expected a blank here");
  skip_blanks();
}

void LineReader::end_line() {
  if (!is_at_end()) fail("unexpected, misplaced or repeated");
}

void LineReader::fail_at(std::string_view rest, std::string_view sentence) {
  if (!fault_.empty()) return;
  const size_t read = line_.size() - rest.size();
  // In the middle of a word, name the whole word.
  size_t begin = read;
  while (begin > 0 && begin < line_.size() && !is_blank(line_[begin - 1])) --begin;
  const size_t end = line_.find_first_of(" \t\r", begin);
  const std::string_view word = line_.substr(begin, end == line_.npos ? end : end - begin);
  if (word.empty()) {
    fault_ = fmt::format("line {}, at its end: {}", line_number_, sentence);
  } else {
    fault_ = fmt::format("line {}, word {} ({}): {}", line_number_, count_words(line_, read),
                         shown(word), sentence);
  }
}

Status LineReader::status() const {
  if (fault_.empty()) return Done{};
  return Error{ErrorCode::BadInput, fault_};
}

void LineReader::skip_blanks() {
  while (!rest_.empty() && is_blank(rest_[0])) rest_.remove_prefix(1);
}

std::string_view LineReader::current_word() const {
  return rest_.substr(0, rest_.find_first_of(" \t\r"));
}

}  // namespace fitstep

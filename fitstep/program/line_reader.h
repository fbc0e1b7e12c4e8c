// Reads one line of a program file word by word: f0 "two words" 12 3.1:shape
//
// The reader keeps the first fault with its line and word. A parser reads a whole record and checks
// status() once: after a fault, values that are read mean nothing, and no number is next.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fitstep/base/result.h"

namespace fitstep {

class LineReader {
 public:
  // REQUIRES: the characters of `line` outlive the reader.
  LineReader(std::string_view line, int64_t line_number);

  // True if only blanks are left.
  bool is_at_end() const { return rest_.empty(); }

  // True if there is no fault and the next word begins like a number.
  bool is_number_next() const;

  // Reads the next word if it equals `word`.
  bool accept(std::string_view word);

  // Reads the next character if it equals `letter`; stays in the same word.
  bool accept(char letter);

  // Read a bare word, a string in quotes, or a decimal integer. Errors call it `what`.
  std::string_view word(std::string_view what);
  std::string quoted(std::string_view what);
  int64_t number(std::string_view what);
  int32_t small_number(std::string_view what);  // Fits 32 bits.

  // Reads `letter` between two parts of a word, such as the point in 3.1; else a fault.
  void expect(char letter, std::string_view what);

  // A fault unless the word ends here, with a blank or the end of the line.
  void end_word();

  // A fault unless the line ends here.
  void end_line();

  // Keep the fault "line 3, word 2 (abc): ..." unless there is one already. fail() names the next
  // word, fail_back() the word that was read last.
  void fail(std::string_view sentence) { fail_at(rest_, sentence); }
  void fail_back(std::string_view sentence) { fail_at(last_, sentence); }

  Status status() const;

 private:
  void fail_at(std::string_view rest, std::string_view sentence);
  void skip_blanks();
  std::string_view current_word() const;

  std::string_view line_;
  std::string_view rest_;  // Not yet read.
  std::string_view last_;  // Begins with the word, or part of a word, that was read last.
  int64_t line_number_;
  std::string fault_;  // Empty: no fault.
};

}  // namespace fitstep

// Reads one line of a program file word by word: f0 "two words" 12 3.1:shape
//
// The first fault is kept with its line and word, and everything read after it is a default value;
// so a parser reads a whole record and asks once whether it was well-formed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fitstep/base/result.h"

namespace fitstep {

class LineReader {
 public:
  LineReader(std::string_view line, int64_t line_number);

  // Only blanks are left.
  bool is_at_end() const { return rest_.empty(); }

  // The next word begins like a number, and there is no fault.
  bool is_number_next() const;

  // Reads the next word if it is exactly this one.
  bool accept(std::string_view word);

  // Reads the next character if it is this one; stays in the same word.
  bool accept(char letter);

  // A bare word, a string in quotes, or a decimal integer. `what` names it in the error.
  std::string_view word(std::string_view what);
  std::string quoted(std::string_view what);
  int64_t number(std::string_view what);
  int32_t small_number(std::string_view what);  // One that fits 32 bits.

  // Between the parts of a word that has several, such as 3.1: this character comes next.
  void expect(char letter, std::string_view what);

  // The word is over: a blank or the end of the line comes next.
  void end_word();

  // The line is over.
  void end_line();

  // Keeps "line 3, word 2 (abc): expected ..." unless there is a fault already. The word is the one
  // that comes next, or the one that was read last.
  void fail(std::string_view sentence) { fail_at(rest_, sentence); }
  void fail_back(std::string_view sentence) { fail_at(last_, sentence); }

  Status status() const;

 private:
  void fail_at(std::string_view rest, std::string_view sentence);
  void skip_blanks();
  std::string_view current_word() const;

  std::string_view line_;
  std::string_view rest_;  // What has not been read.
  std::string_view last_;  // Begins with the word, or the part of one, that was read last.
  int64_t line_number_;
  std::string fault_;  // Empty while all is well.
};

}  // namespace fitstep

// parse_program(): one record a line, each read from left to right in a fixed order of words.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/base/result.h"
#include "fitstep/program/line_reader.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "fitstep/program/validate.h"

namespace fitstep {
namespace {

constexpr std::string_view kFormat = "fitstep program ";

Error bad_file(const std::string& sentence) {
  return Error{ErrorCode::BadInput, "cannot read the program file: " + sentence};
}

// Reads the name of an enumerator, the last of which is `last`.
template <class Kind>
Kind read_kind(LineReader& line, Kind last, std::string_view what) {
  const std::string_view word = line.word(what);
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (word == to_string(static_cast<Kind>(i))) return static_cast<Kind>(i);
  }
  line.fail_back(fmt::format("this is not {}", what));
  return last;
}

// Reads an id, which must be the record's position in its list.
void check_id(LineReader& line, size_t expected) {
  const int64_t id = line.number("an id");
  if (std::cmp_not_equal(id, expected)) {
    line.fail_back(fmt::format("ids count up by one; expected {}", expected));
  }
  line.end_word();
}

StorageId read_storage_id(LineReader& line) { return StorageId(line.small_number("a storage")); }

int64_t read_number(LineReader& line, std::string_view what) {
  const int64_t number = line.number(what);
  line.end_word();
  return number;
}

int32_t read_small_number(LineReader& line, std::string_view what) {
  const int32_t number = line.small_number(what);
  line.end_word();
  return number;
}

// 2-5
Interval read_interval(LineReader& line) {
  Interval interval;
  interval.begin = line.number("the first tick");
  line.expect('-', "ticks such as 2-5");
  interval.end = line.number("the tick behind the last");
  return interval;
}

// 3.1 or 3.1:shape
Read read_read(LineReader& line) {
  Read read{.storage = read_storage_id(line)};
  line.expect('.', "a read such as 3.1");
  read.version = line.small_number("a version");
  if (line.accept(':')) {
    read.kind = read_kind(line, ReadKind::BoundedInteger, "a read's kind (shape, sign, integer)");
  } else {
    line.end_word();
  }
  return read;
}

// 3.1 or 3.1<0
Write read_write(LineReader& line) {
  Write write{.storage = read_storage_id(line)};
  line.expect('.', "a write such as 3.1");
  write.version = line.small_number("a version");
  if (line.accept('<')) write.may_take = read_storage_id(line);
  line.end_word();
  return write;
}

// 64@0-3 or 64@0-3=2 or either with a * behind it
Request read_request(LineReader& line) {
  Request request{.size_bytes = line.number("its bytes")};
  line.expect('@', "a request such as 64@0-3");
  request.live = read_interval(line);
  if (line.accept('=')) request.output = read_storage_id(line);
  request.is_any_thread = line.accept('*');
  line.end_word();
  return request;
}

Storage read_storage(LineReader& line) {
  Storage storage{.name = line.quoted("a storage's name")};
  storage.size_bytes = read_number(line, "its bytes");
  storage.kind = read_kind(line, StorageKind::Generator, "a storage's kind");
  storage.is_persistent = line.accept("persistent");
  storage.is_visible = line.accept("visible");
  storage.has_content_at_start = line.accept("start");
  if (line.accept("recorded")) {
    storage.recorded = read_interval(line);
    line.end_word();
  }
  if (line.accept("zero_value")) storage.zero_value_bytes = read_number(line, "bytes in that code");
  if (line.accept("zstd")) storage.zstd_bytes = read_number(line, "bytes in that code");
  return storage;
}

Op read_op(LineReader& line) {
  Op op{.name = line.quoted("an op's name")};
  op.kind = read_kind(line, OpKind::Other, "an op's kind");
  if (line.accept("source")) {
    op.source.module = line.quoted("a module path");
    op.source.file = line.quoted("a file");
    op.source.line = read_small_number(line, "a line");
  }
  if (line.accept("repeat")) op.repeat = read_small_number(line, "a repeat");
  op.is_random = line.accept("random");
  op.must_not_move = line.accept("fixed");
  op.is_optional = line.accept("optional");
  if (line.accept("flops")) op.flops = read_number(line, "a number of flops");
  if (line.accept("bytes")) op.bytes = read_number(line, "a number of bytes");
  return op;
}

Form read_form(LineReader& line) {
  Form form{.name = line.quoted("a form's name")};
  if (line.accept("call")) form.call = CallId(read_small_number(line, "a call"));
  if (line.accept("time")) form.time_ps = read_number(line, "a time in picoseconds");
  form.is_pure = line.accept("pure");
  form.restores_generator = line.accept("restores");
  form.has_equal_bits = !line.accept("other_bits");
  if (line.accept("reads")) {
    while (line.is_number_next()) form.reads.push_back(read_read(line));
  }
  if (line.accept("writes")) {
    while (line.is_number_next()) form.writes.push_back(read_write(line));
  }
  if (line.accept("requests")) {
    while (line.is_number_next()) form.requests.push_back(read_request(line));
  }
  return form;
}

class Parser {
 public:
  // REQUIRES: a line that is not blank.
  Status parse_line(std::string_view text, int64_t number) {
    LineReader line(text, number);
    if (is_ended_) line.fail("no record may follow the end record");
    if (line.accept("form")) {
      parse_form(line, number);
    } else if (line.accept("op")) {
      check_id(line, program_.ops.size());
      program_.ops.push_back(read_op(line));
      op_lines_.push_back({number});
    } else if (line.accept("storage")) {
      check_id(line, program_.storages.size());
      program_.storages.push_back(read_storage(line));
      storage_lines_.push_back(number);
    } else if (line.accept("call")) {
      check_id(line, program_.calls.size());
      program_.calls.push_back(Call{line.quoted("the call")});
    } else if (line.accept("name")) {
      program_.name = line.quoted("the program's name");
    } else if (line.accept("alignment")) {
      program_.alignment_bytes = read_number(line, "a number of bytes");
    } else if (line.accept("end")) {
      parse_end(line);
    } else {
      line.fail("expected one of name, alignment, call, storage, op, form, end");
    }
    line.end_line();
    return line.status();
  }

  Result<Program> finish() && {
    if (!is_ended_) {
      return bad_file(
          fmt::format("it is cut off after {} calls, {} storages and {} ops (the end "
                      "record is missing); copy it again",
                      program_.calls.size(), program_.storages.size(), program_.ops.size()));
    }
    ProgramPlace place;
    if (const Status status = validate(program_, place); !status) {
      return bad_file(line_of(place) + status.error().message);
    }
    return std::move(program_);
  }

 private:
  // "line 12: "; empty if the program as a whole is wrong.
  std::string line_of(const ProgramPlace& place) const {
    if (!place.storage.is_none()) {
      return fmt::format("line {}: ", storage_lines_[place.storage.index()]);
    }
    if (place.op.is_none()) return "";
    const std::vector<int64_t>& lines = op_lines_[place.op.index()];
    if (place.form < 0) return fmt::format("line {}: ", lines.front());
    return fmt::format("line {}: ", lines[1 + static_cast<size_t>(place.form)]);
  }

  void parse_form(LineReader& line, int64_t number) {
    if (program_.ops.empty()) return line.fail_back("a form needs an op in front of it");
    program_.ops.back().forms.push_back(read_form(line));
    op_lines_.back().push_back(number);
  }

  // "end calls 2 storages 5 ops 6": the counts show that no line was lost.
  void parse_end(LineReader& line) {
    check_count(line, "calls", program_.calls.size());
    check_count(line, "storages", program_.storages.size());
    check_count(line, "ops", program_.ops.size());
    is_ended_ = true;
  }

  static void check_count(LineReader& line, std::string_view what, size_t count) {
    if (!line.accept(what)) line.fail(fmt::format("expected \"{}\" and their number", what));
    if (std::cmp_not_equal(line.number("a number of records"), count)) {
      line.fail_back(fmt::format("the file has {} {}", count, what));
    }
    line.end_word();
  }

  Program program_;
  std::vector<int64_t> storage_lines_;
  std::vector<std::vector<int64_t>> op_lines_;  // By op: its own line, then its forms'.
  bool is_ended_ = false;
};

// Takes the first line off `text`, without its line end.
std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

bool is_blank_or_comment(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t\r");
  return first == line.npos || line[first] == '#';
}

}  // namespace

Result<Program> parse_program(std::string_view text) {
  std::string_view header = take_line(text);
  if (header.ends_with('\r')) header.remove_suffix(1);
  if (!header.starts_with(kFormat)) {
    return bad_file(fmt::format("line 1 is not \"{}1\", so this is not a program file", kFormat));
  }
  if (const std::string_view version = header.substr(kFormat.size()); version != "1") {
    return bad_file(
        fmt::format("it has format {}, and this fitstep reads format 1; save the "
                    "program again with this fitstep",
                    version.substr(0, 40)));
  }
  Parser parser;
  for (int64_t number = 2; !text.empty(); ++number) {
    const std::string_view line = take_line(text);
    if (is_blank_or_comment(line)) continue;
    if (const Status status = parser.parse_line(line, number); !status) {
      return bad_file(status.error().message);
    }
  }
  return std::move(parser).finish();
}

}  // namespace fitstep

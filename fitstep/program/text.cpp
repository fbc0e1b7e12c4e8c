#include "fitstep/program/text.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fitstep/base/hash.h"
#include "fitstep/base/interval.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  std::string print() {
    put("fitstep program 1\nname ");
    put_quoted(program_.name);
    put("\n");
    if (program_.alignment_bytes != kAlignmentBytes) {
      put("alignment {}\n", program_.alignment_bytes);
    }
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      put("call {} ", i);
      put_quoted(program_.calls[i].text);
      put("\n");
    }
    for (size_t i = 0; i < program_.storages.size(); ++i) put_storage(i);
    for (size_t i = 0; i < program_.ops.size(); ++i) put_op(i);
    put("end calls {} storages {} ops {}\n", program_.calls.size(), program_.storages.size(),
        program_.ops.size());
    return std::move(text_);
  }

 private:
  template <class... Arguments>
  void put(fmt::format_string<const Arguments&...> format, const Arguments&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, arguments...);
  }

  void put_quoted(std::string_view content) {
    text_ += '"';
    for (const char letter : content) {
      switch (letter) {
        case '"':
          text_ += "\\\"";
          break;
        case '\\':
          text_ += "\\\\";
          break;
        case '\n':
          text_ += "\\n";
          break;
        case '\t':
          text_ += "\\t";
          break;
        default:
          if (static_cast<unsigned char>(letter) < 0x20) {
            put("\\x{:02x}", static_cast<unsigned char>(letter));
          } else {
            text_ += letter;
          }
      }
    }
    text_ += '"';
  }

  void put_storage(size_t index) {
    const Storage& storage = program_.storages[index];
    put("storage {} ", index);
    put_quoted(storage.name);
    put(" {} {}", storage.size_bytes, to_string(storage.kind));
    if (storage.is_persistent) put(" persistent");
    if (storage.is_visible) put(" visible");
    if (storage.has_content_at_start) put(" start");
    if (storage.recorded != Interval{}) {
      put(" recorded {}-{}", storage.recorded.begin, storage.recorded.end);
    }
    if (storage.zero_value_bytes != 0) put(" zero_value {}", storage.zero_value_bytes);
    if (storage.zstd_bytes != 0) put(" zstd {}", storage.zstd_bytes);
    put("\n");
  }

  void put_op(size_t index) {
    const Op& op = program_.ops[index];
    put("op {} ", index);
    put_quoted(op.name);
    put(" {}", to_string(op.kind));
    if (op.source != Source{}) {
      put(" source ");
      put_quoted(op.source.module);
      put(" ");
      put_quoted(op.source.file);
      put(" {}", op.source.line);
    }
    if (op.repeat != -1) put(" repeat {}", op.repeat);
    if (op.is_random) put(" random");
    if (op.must_not_move) put(" fixed");
    if (op.is_optional) put(" optional");
    if (op.flops != 0) put(" flops {}", op.flops);
    if (op.bytes != 0) put(" bytes {}", op.bytes);
    put("\n");
    for (const Form& form : op.forms) put_form(form);
  }

  void put_form(const Form& form) {
    put("form ");
    put_quoted(form.name);
    if (!form.call.is_none()) put(" call {}", form.call.value());
    if (form.time_ps != 0) put(" time {}", form.time_ps);
    if (form.is_pure) put(" pure");
    if (form.restores_generator) put(" restores");
    if (!form.has_equal_bits) put(" other_bits");
    if (!form.reads.empty()) put(" reads");
    for (const Read& read : form.reads) {
      put(" {}.{}", read.storage.value(), read.version);
      if (read.kind != ReadKind::Data) put(":{}", to_string(read.kind));
    }
    if (!form.writes.empty()) put(" writes");
    for (const Write& write : form.writes) {
      put(" {}.{}", write.storage.value(), write.version);
      if (!write.may_take.is_none()) put("<{}", write.may_take.value());
    }
    if (!form.requests.empty()) put(" requests");
    for (const Request& request : form.requests) {
      put(" {}@{}-{}", request.size_bytes, request.live.begin, request.live.end);
      if (!request.output.is_none()) put("={}", request.output.value());
      if (request.is_any_thread) put("*");
    }
    put("\n");
  }

  const Program& program_;
  std::string text_;
};

void add_form(Fingerprint& fingerprint, const Program& program, const Form& form) {
  const std::string_view call =
      form.call.is_none() ? std::string_view() : program.calls[form.call.index()].text;
  fingerprint.add(static_cast<int64_t>(call.size()));
  fingerprint.add(call);
  fingerprint.add(int64_t{form.is_pure} + 2 * int64_t{form.restores_generator} +
                  4 * int64_t{form.has_equal_bits});
  fingerprint.add(static_cast<int64_t>(form.reads.size()));
  for (const Read& read : form.reads) {
    fingerprint.add(read.storage.value());
    fingerprint.add(read.version);
    fingerprint.add(static_cast<int64_t>(read.kind));
  }
  fingerprint.add(static_cast<int64_t>(form.writes.size()));
  for (const Write& write : form.writes) {
    fingerprint.add(write.storage.value());
    fingerprint.add(write.version);
    fingerprint.add(write.may_take.value());
  }
  fingerprint.add(static_cast<int64_t>(form.requests.size()));
  for (const Request& request : form.requests) {
    fingerprint.add(request.size_bytes);
    fingerprint.add(request.live.begin);
    fingerprint.add(request.live.end);
    fingerprint.add(request.output.value());
    fingerprint.add(int64_t{request.is_any_thread});
  }
}

}  // namespace

std::string print_program(const Program& program) { return Printer(program).print(); }

// Flops, bytes and sizes in codes stay out, like times: they only estimate costs.
std::string hash_program(const Program& program) {
  Fingerprint fingerprint;
  if (program.alignment_bytes != kAlignmentBytes) fingerprint.add(program.alignment_bytes);
  fingerprint.add(static_cast<int64_t>(program.storages.size()));
  for (const Storage& storage : program.storages) {
    fingerprint.add(storage.size_bytes);
    fingerprint.add(static_cast<int64_t>(storage.kind));
    fingerprint.add(int64_t{storage.is_persistent} + 2 * int64_t{storage.is_visible} +
                    4 * int64_t{storage.has_content_at_start});
  }
  fingerprint.add(static_cast<int64_t>(program.ops.size()));
  for (const Op& op : program.ops) {
    fingerprint.add(static_cast<int64_t>(op.kind));
    fingerprint.add(op.repeat);
    fingerprint.add(int64_t{op.is_random} + 2 * int64_t{op.must_not_move} +
                    4 * int64_t{op.is_optional});
    fingerprint.add(static_cast<int64_t>(op.forms.size()));
    for (const Form& form : op.forms) add_form(fingerprint, program, form);
  }
  return fingerprint.hex();
}

}  // namespace fitstep

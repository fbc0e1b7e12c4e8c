// validate(): walks the ops in program order and keeps the current version of every storage.
#include "fitstep/program/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/base/result.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

// Limit of one size and of the sum of all sizes. A plan may hold each storage many times, and the
// verifier counts up to 2^62 bytes.
constexpr int64_t kMostBytes = int64_t{1} << 52;

template <class... Arguments>
Error bad_program(fmt::format_string<const Arguments&...> format, const Arguments&... arguments) {
  return Error{ErrorCode::BadInput, "invalid program: " + fmt::format(format, arguments...)};
}

bool is_sane_size(int64_t bytes) { return bytes >= 0 && bytes <= kMostBytes; }

class Validator {
 public:
  Validator(const Program& program, ProgramPlace& place)
      : program_(program),
        place_(place),
        version_(program.storages.size(), 0),
        is_optional_(program.storages.size(), 0) {}

  Status run() {
    const int64_t alignment_bytes = program_.alignment_bytes;
    if (alignment_bytes < 1 || alignment_bytes > kMostAlignmentBytes ||
        (alignment_bytes & (alignment_bytes - 1)) != 0) {
      return bad_program("the alignment is {} bytes; it must be a power of two, at most {}",
                         alignment_bytes, kMostAlignmentBytes);
    }
    FITSTEP_TRY_STATUS(check_storages());
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      op_ = i;
      place_ = {.op = OpId(i)};
      FITSTEP_TRY_STATUS(check_op(program_.ops[i]));
      for (const Write& write : program_.ops[i].forms.front().writes) {
        version_[write.storage.index()] = write.version;
        if (program_.ops[i].is_optional) is_optional_[write.storage.index()] = 1;
      }
    }
    return Done{};
  }

 private:
  Status check_storages() {
    constexpr size_t kMost = std::numeric_limits<int32_t>::max();
    if (program_.storages.size() > kMost || program_.ops.size() > kMost) {
      return bad_program("{} storages and {} ops; ids end at {}", program_.storages.size(),
                         program_.ops.size(), kMost);
    }
    for (size_t i = 0; i < program_.storages.size(); ++i) {
      const Storage& storage = program_.storages[i];
      place_ = {.storage = StorageId(i)};
      if (!is_sane_size(storage.size_bytes)) {
        return bad_program("{} has {} bytes; a size lies in 0 .. 2^52", label(StorageId(i)),
                           storage.size_bytes);
      }
      sum_bytes_ += storage.size_bytes;
      if (sum_bytes_ > kMostBytes) {
        return bad_program("the storages up to {} have more than 2^52 bytes together",
                           label(StorageId(i)));
      }
      for (const int64_t coded_bytes : {storage.zero_value_bytes, storage.zstd_bytes}) {
        if (is_sane_size(coded_bytes)) continue;
        return bad_program("{} has {} bytes in a code; a size lies in 0 .. 2^52",
                           label(StorageId(i)), coded_bytes);
      }
      const Interval& recorded = storage.recorded;
      if (recorded.begin < 0 || recorded.end < recorded.begin) {
        return bad_program("{} was recorded from tick {} to {}; birth comes before death",
                           label(StorageId(i)), recorded.begin, recorded.end);
      }
    }
    return Done{};
  }

  Status check_op(const Op& op) {
    if (op.forms.empty()) return bad_program("{} has no form", label_op());
    if (op.repeat < -1) {
      return bad_program("{} belongs to repeat {}; -1 stands for none", label_op(), op.repeat);
    }
    if (op.flops < 0 || op.bytes < 0) {
      return bad_program("{} has {} flops and moves {} bytes", label_op(), op.flops, op.bytes);
    }
    if (!op.forms.front().has_equal_bits) {
      return bad_program("{}: form 0 is the default form, so it cannot have other bits",
                         label_op());
    }
    for (size_t i = 0; i < op.forms.size(); ++i) {
      place_.form = static_cast<int32_t>(i);
      FITSTEP_TRY_STATUS(check_form(op.forms[i], i));
      if (i > 0) FITSTEP_TRY_STATUS(check_same_writes(op.forms.front(), op.forms[i], i));
      if (op.is_optional) FITSTEP_TRY_STATUS(check_leaves_no_trace(op.forms[i], i));
    }
    if (!op.is_optional) FITSTEP_TRY_STATUS(check_needs_no_optional(op.forms.front()));
    return Done{};
  }

  // An optional op may only write new temporary storages.
  Status check_leaves_no_trace(const Form& form, size_t form_index) const {
    if (!form.is_pure) {
      return bad_program("{} form {} is not pure; every form of an optional op must be", label_op(),
                         form_index);
    }
    for (const Write& write : form.writes) {
      const Storage& storage = program_.storages[write.storage.index()];
      const bool is_new = write.version == 1 && !storage.has_content_at_start;
      if (is_new && storage.kind == StorageKind::Temporary && !storage.is_persistent) continue;
      return bad_program(
          "{} form {} writes {}; an optional op may only write new temporary storages", label_op(),
          form_index, label(write.storage));
    }
    return Done{};
  }

  // The default forms must run without any optional op.
  Status check_needs_no_optional(const Form& form) const {
    for (const Read& read : form.reads) {
      if (is_optional_[read.storage.index()] == 0 || read.kind == ReadKind::ShapeOnly) continue;
      return bad_program("{} form 0 reads {}, which only an optional op makes", label_op(),
                         label(read.storage));
    }
    for (const Write& write : form.writes) {
      if (is_optional_[write.storage.index()] == 0) continue;
      return bad_program("{} form 0 writes {}, which an optional op makes", label_op(),
                         label(write.storage));
    }
    return Done{};
  }

  Status check_form(const Form& form, size_t form_index) {
    if (form.time_ps < 0) {
      return bad_program("{} form {} takes {} ps", label_op(), form_index, form.time_ps);
    }
    if (!form.call.is_none() && form.call.index() >= program_.calls.size()) {
      return bad_program("{} form {} has call {} of {}", label_op(), form_index, form.call.value(),
                         program_.calls.size());
    }
    FITSTEP_TRY_STATUS(check_reads(form, form_index));
    FITSTEP_TRY_STATUS(check_writes(form, form_index));
    return check_requests(form, form_index);
  }

  Status check_reads(const Form& form, size_t form_index) const {
    for (const Read& read : form.reads) {
      FITSTEP_TRY_STATUS(check_id(read.storage, form_index, "reads"));
      const int32_t now = version_[read.storage.index()];
      if (read.version < 0 || read.version > now) {
        return bad_program(
            "{} form {} reads version {} of {}, but the last one written there is {}; an op reads "
            "what ops in front of it wrote",
            label_op(), form_index, read.version, label(read.storage), now);
      }
      if (read.kind == ReadKind::ShapeOnly) continue;  // Geometry exists without content.
      if (read.version == 0 && !program_.storages[read.storage.index()].has_content_at_start) {
        return bad_program(
            "{} form {} reads version 0 of {}, which has no content at start; either an op in "
            "front writes it, or its storage is marked \"start\"",
            label_op(), form_index, label(read.storage));
      }
      // The default form runs in program order. Another may read what a plan can recompute.
      if (form_index == 0 && read.version != now) {
        return bad_program("{} form 0 reads version {} of {}, which version {} has overwritten",
                           label_op(), read.version, label(read.storage), now);
      }
    }
    return Done{};
  }

  Status check_writes(const Form& form, size_t form_index) const {
    for (size_t i = 0; i < form.writes.size(); ++i) {
      const Write& write = form.writes[i];
      FITSTEP_TRY_STATUS(check_id(write.storage, form_index, "writes"));
      const int32_t expected = version_[write.storage.index()] + 1;
      if (write.version != expected) {
        return bad_program("{} form {} writes version {} of {}; versions count up by one, to {}",
                           label_op(), form_index, write.version, label(write.storage), expected);
      }
      const auto written = std::span(form.writes).first(i);
      if (std::ranges::count(written, write.storage, &Write::storage) > 0) {
        return bad_program("{} form {} writes {} twice", label_op(), form_index,
                           label(write.storage));
      }
      const bool is_generator =
          program_.storages[write.storage.index()].kind == StorageKind::Generator;
      if (is_generator && (form.is_pure || form.restores_generator)) {
        return bad_program("{} form {} may run again, but advances {}", label_op(), form_index,
                           label(write.storage));
      }
      if (write.may_take.is_none()) continue;
      FITSTEP_TRY_STATUS(check_id(write.may_take, form_index, "takes the address of"));
      if (write.may_take == write.storage ||
          std::ranges::count(form.reads, write.may_take, &Read::storage) == 0) {
        return bad_program("{} form {} lets {} take the address of {}, which is not another input",
                           label_op(), form_index, label(write.storage), label(write.may_take));
      }
    }
    return Done{};
  }

  // Every form writes what the default form writes. A form that may run again may leave out some.
  Status check_same_writes(const Form& standard, const Form& form, size_t form_index) const {
    for (const Write& write : form.writes) {
      if (std::ranges::count(standard.writes, write.storage, &Write::storage) == 0) {
        return bad_program("{} form {} writes {}, which form 0 does not", label_op(), form_index,
                           label(write.storage));
      }
    }
    if (form.is_pure || form.restores_generator) return Done{};
    for (const Write& write : standard.writes) {
      if (std::ranges::count(form.writes, write.storage, &Write::storage) == 0) {
        return bad_program("{} form {} is not pure and leaves out {}, which form 0 writes",
                           label_op(), form_index, label(write.storage));
      }
    }
    return Done{};
  }

  Status check_requests(const Form& form, size_t form_index) {
    for (size_t i = 0; i < form.requests.size(); ++i) {
      const Request& request = form.requests[i];
      if (!is_sane_size(request.size_bytes)) {
        return bad_program("{} form {} request {} asks for {} bytes; a size lies in 0 .. 2^52",
                           label_op(), form_index, i, request.size_bytes);
      }
      sum_bytes_ += request.size_bytes;
      if (sum_bytes_ > kMostBytes) {
        return bad_program("{} form {}: storages and requests so far have more than 2^52 bytes",
                           label_op(), form_index);
      }
      if (request.live.begin < 0 || is_empty(request.live)) {
        return bad_program("{} form {} request {} lives from {} to {}, which is empty", label_op(),
                           form_index, i, request.live.begin, request.live.end);
      }
      if (request.output.is_none()) continue;
      FITSTEP_TRY_STATUS(check_id(request.output, form_index, "requests"));
      if (std::ranges::count(form.writes, request.output, &Write::storage) == 0) {
        return bad_program("{} form {} request {} becomes {}, which the form does not write",
                           label_op(), form_index, i, label(request.output));
      }
      const auto before = std::span(form.requests).first(i);
      if (std::ranges::count(before, request.output, &Request::output) > 0) {
        return bad_program("{} form {} request {} becomes {}, as an earlier one did", label_op(),
                           form_index, i, label(request.output));
      }
      const int64_t size_bytes = program_.storages[request.output.index()].size_bytes;
      if (request.size_bytes > size_bytes) {
        return bad_program("{} form {} request {} of {} bytes becomes {}, which has only {}",
                           label_op(), form_index, i, request.size_bytes, label(request.output),
                           size_bytes);
      }
    }
    return Done{};
  }

  Status check_id(StorageId storage, size_t form_index, const char* verb) const {
    if (!storage.is_none() && storage.index() < program_.storages.size()) return Done{};
    return bad_program("{} form {} {} storage {}; there are {}", label_op(), form_index, verb,
                       storage.value(), program_.storages.size());
  }

  // "storage 3 (layers.0.weight)"
  std::string label(StorageId storage) const {
    return fmt::format("storage {} ({})", storage.value(), program_.storages[storage.index()].name);
  }

  // "op 7 (aten::addmm, model.py:12)"
  std::string label_op() const {
    const Op& op = program_.ops[op_];
    if (op.source.file.empty()) return fmt::format("op {} ({})", op_, op.name);
    return fmt::format("op {} ({}, {}:{})", op_, op.name, op.source.file, op.source.line);
  }

  const Program& program_;
  ProgramPlace& place_;            // The part being checked.
  std::vector<int32_t> version_;   // By storage, before the op being checked.
  std::vector<char> is_optional_;  // By storage: an optional op has written it.
  size_t op_ = 0;
  int64_t sum_bytes_ = 0;  // Checked so far.
};

}  // namespace

Status validate(const Program& program, ProgramPlace& place) {
  return Validator(program, place).run();
}

Status validate(const Program& program) {
  ProgramPlace ignored;
  return validate(program, ignored);
}

}  // namespace fitstep

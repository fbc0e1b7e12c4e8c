#include "fitstep/program/resized.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

// The straight line through two recorded numbers, rounded up, never below zero.
class Line {
 public:
  Line(int64_t batch_a, int64_t batch_b, int64_t batch)
      : from_(batch_a), span_(batch_b - batch_a), to_(batch) {}

  int64_t at(int64_t a, int64_t b) const {
    const int64_t distance = to_ - from_;
    const int64_t slope = (b - a) / span_;
    const double rise = static_cast<double>(slope) * static_cast<double>(distance);
    if (std::abs(rise) > static_cast<double>(kMost)) return rise > 0 ? kMost : 0;
    const int64_t rest = (b - a) % span_ * distance;  // Below the product of two batches.
    const bool is_rounded = rest % span_ != 0 && (rest > 0) == (span_ > 0);
    return std::clamp<int64_t>(a + slope * distance + rest / span_ + (is_rounded ? 1 : 0), 0,
                               kMost);
  }

 private:
  static constexpr int64_t kMost = int64_t{1} << 52;  // The largest size of a valid program.

  int64_t from_;
  int64_t span_;
  int64_t to_;
};

Error differs(const std::string& what) {
  return {ErrorCode::BadInput, what + " differs from batch size to batch size"};
}

bool are_alike(const Form& a, const Form& b) {
  return a.reads == b.reads && a.writes == b.writes && a.is_pure == b.is_pure &&
         a.restores_generator == b.restores_generator && a.has_equal_bits == b.has_equal_bits;
}

// Kernels may request other workspaces for another batch; then those of the larger batch count.
std::vector<Request> requests_of(const Form& a, const Form& b, const Line& line, bool b_is_larger) {
  std::vector<Request> made = b_is_larger ? b.requests : a.requests;
  const auto is_alike = [](const Request& x, const Request& y) {
    return x.live == y.live && x.output == y.output;
  };
  if (!std::ranges::equal(a.requests, b.requests, is_alike)) return made;
  for (size_t i = 0; i < made.size(); ++i)
    made[i].size_bytes = line.at(a.requests[i].size_bytes, b.requests[i].size_bytes);
  return made;
}

Status resize_storages(const Program& a, const Program& b, const Line& line, Program& made) {
  for (size_t i = 0; i < made.storages.size(); ++i) {
    const Storage& x = a.storages[i];
    const Storage& y = b.storages[i];
    if (x.kind != y.kind || x.is_persistent != y.is_persistent || x.recorded != y.recorded)
      return differs("the storage '" + x.name + "'");
    if (x.is_persistent && x.size_bytes != y.size_bytes)
      return differs("the size of '" + x.name + "', which stays from step to step,");
    made.storages[i].size_bytes = line.at(x.size_bytes, y.size_bytes);
    made.storages[i].zero_value_bytes = line.at(x.zero_value_bytes, y.zero_value_bytes);
    made.storages[i].zstd_bytes = line.at(x.zstd_bytes, y.zstd_bytes);
  }
  return Done{};
}

// Requests for results have the size of the storage that they become.
void size_results(Program& made) {
  for (Op& op : made.ops) {
    for (Form& form : op.forms) {
      for (Request& request : form.requests) {
        if (!request.output.is_none())
          request.size_bytes = made.storages[request.output.index()].size_bytes;
      }
    }
  }
}

}  // namespace

Result<Program> resized(const OfBatch& a, const OfBatch& b, int64_t batch) {
  Program made = a.program;
  if (a.batch == b.batch) return differs("nothing");
  if (a.program.ops.size() != b.program.ops.size() ||
      a.program.storages.size() != b.program.storages.size())
    return differs("the number of ops or storages");
  const Line line(a.batch, b.batch, batch);
  FITSTEP_TRY_STATUS(resize_storages(a.program, b.program, line, made));
  for (size_t i = 0; i < made.ops.size(); ++i) {
    const Op& x = a.program.ops[i];
    const Op& y = b.program.ops[i];
    if (x.name != y.name || x.forms.size() != y.forms.size() || x.is_random != y.is_random)
      return differs("the op " + x.name);
    made.ops[i].flops = line.at(x.flops, y.flops);
    made.ops[i].bytes = line.at(x.bytes, y.bytes);
    for (size_t f = 0; f < x.forms.size(); ++f) {
      if (!are_alike(x.forms[f], y.forms[f])) return differs("the op " + x.name);
      Form& form = made.ops[i].forms[f];
      form.time_ps = line.at(x.forms[f].time_ps, y.forms[f].time_ps);
      form.requests = requests_of(x.forms[f], y.forms[f], line, b.batch > a.batch);
    }
  }
  size_results(made);
  return made;
}

Program guessed(const OfBatch& a, int64_t batch) {
  const auto grown = [&](int64_t size) {
    return size % a.batch == 0 ? Line(0, a.batch, batch).at(0, size) : size;
  };
  Program made = a.program;
  for (Storage& storage : made.storages) {
    if (storage.is_persistent) continue;
    storage.size_bytes = grown(storage.size_bytes);
    storage.zero_value_bytes = grown(storage.zero_value_bytes);
    storage.zstd_bytes = grown(storage.zstd_bytes);
  }
  for (Op& op : made.ops) {
    for (Form& form : op.forms) {
      for (Request& request : form.requests) request.size_bytes = grown(request.size_bytes);
    }
  }
  size_results(made);
  return made;
}

int64_t largest_access_bytes(const Program& program, OpId* op) {
  int64_t most_bytes = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    if (program.ops[i].is_optional) continue;
    int64_t least_bytes = std::numeric_limits<int64_t>::max();
    for (const Form& form : program.ops[i].forms) {
      std::set<StorageId> read;
      std::set<StorageId> written;
      for (const Read& one : form.reads) {
        if (one.kind == ReadKind::Data) read.insert(one.storage);
      }
      for (const Write& one : form.writes) written.insert(one.storage);
      const auto bytes_of = [&](const std::set<StorageId>& storages) {
        int64_t sum_bytes = 0;
        for (const StorageId storage : storages)
          sum_bytes += program.storages[storage.index()].size_bytes;
        return sum_bytes;
      };
      least_bytes = std::min(least_bytes, std::max(bytes_of(read), bytes_of(written)));
    }
    if (program.ops[i].forms.empty() || least_bytes <= most_bytes) continue;
    most_bytes = least_bytes;
    if (op != nullptr) *op = OpId(i);
  }
  return most_bytes;
}

}  // namespace fitstep

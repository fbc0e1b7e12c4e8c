// Forms of a GPU's convolutions with less workspace.
//
// cuDNN has several algorithms for a convolution. PyTorch requests the workspace of the algorithm
// that cuDNN ranks first. If the request is refused, PyTorch tries the next algorithm. It caches
// its choice by thread, operands and settings:
//
//   ranked      100 A    90 B    20 C    40 D    0 E        workspaces
//   refused     -        > 99    > 89    -       > 19
//   taken       A        B       C               E          so D never is
//
// We measure each algorithm by refusing requests that are not below the workspace of the algorithm
// before it (except memory that every algorithm needs). Then we compare its results with those of
// A, once per process. A step that runs C refuses requests above 20. So PyTorch ends with C, or
// with a cached algorithm of another form, which has equal bits. B has other bits; it is measured
// in a thread of its own, so no thread that runs steps caches B. A plan chooses per op, but PyTorch
// keeps per thread the smallest choice: the workspace of a plan may then stay partly unused.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fitstep_torch/device.h"
#include "fitstep_torch/profile/measure.h"
#include "fitstep_torch/profile/profile.h"
#include "fitstep_torch/profile/requests.h"

namespace fitstep::torch_side {
namespace {

constexpr const char* kRunsClaim = "runs";
constexpr const char* kSameBitsClaim = "same bits";
constexpr const char* kLess = " with less";  // Appended to signatures that were compared here.
constexpr int kMostTries = 8;                // For one convolution.

bool is_among(const std::vector<int64_t>& sizes, int64_t size_bytes) {
  return std::ranges::find(sizes, size_bytes) != sizes.end();
}

int64_t largest_scratch(const Measurement& measured, const std::vector<int64_t>& spared_bytes) {
  int64_t most_bytes = 0;
  for (const MeasuredRequest& request : measured.requests) {
    if (request.result >= 0 || is_among(spared_bytes, request.size_bytes)) continue;
    most_bytes = std::max(most_bytes, request.size_bytes);
  }
  return most_bytes;
}

bool has(const Measurement& measured, const char* refuted) {
  return std::ranges::find(measured.refuted, refuted) != measured.refuted.end();
}

TorchCall within(const TorchCall& call, int64_t most_scratch_bytes,
                 const std::vector<int64_t>& spared_bytes) {
  TorchCall limited = call;
  limited.most_scratch_bytes = most_scratch_bytes;
  limited.spared_bytes = spared_bytes;
  return limited;
}

}  // namespace

// One call of add_less_scratch().
class Profile::LessScratch {
 public:
  LessScratch(Profile& profile, StepProgram& step, const Workplace& place)
      : profile_(profile), step_(step), sizes_(sizes_of(step.program)), bench_(sizes_, place) {
    for (size_t i = 0; i < step.program.ops.size(); ++i) {
      if (step.program.ops[i].kind == OpKind::Convolution && may_have_less(i)) ops_.push_back(i);
    }
  }

  Status find() {
    std::map<std::string, Plain> plain;
    for (const size_t op : ops_) {
      const std::string signature = signature_of(call_of(op), sizes_);
      if (profile_.ran_.insert(signature + kLess).second)
        plain.emplace(signature, Plain{.call = call_of(op), .hashes = {}});
    }
    if (plain.empty()) return Done{};
    for (auto& [signature, one] : plain) {
      FITSTEP_TRY(one.hashes, bench_.hash_results(one.call, {}));
    }
    for (const auto& [signature, one] : plain) {
      FITSTEP_TRY_STATUS(in_another_thread<Done>([&]() -> Status {
        find_all(one);
        return Done{};
      }));
    }
    for (const auto& [signature, one] : plain) {
      FITSTEP_TRY(const std::vector<uint64_t> again, bench_.hash_results(one.call, {}));
      if (again != one.hashes) return lost_default(one.call);
    }
    return Done{};
  }

  void add_forms() {
    const auto known = [&](const TorchCall& less) {
      const auto found = profile_.known_.find(signature_of(less, sizes_));
      return found == profile_.known_.end() ? nullptr : &found->second;
    };
    for (const size_t op : ops_) {
      const auto add = [&](const TorchCall& limited, const Measurement& measured) {
        if (measured.refuted.empty()) add_form(op, limited, measured);
      };
      walk(TorchCall(call_of(op)), known, add);
    }
  }

 private:
  struct Plain {
    TorchCall call;
    std::vector<uint64_t> hashes;  // Of its results in the thread that runs steps.
  };

  const TorchCall& call_of(size_t op) const {
    return step_.calls[step_.program.ops[op].forms[0].call.index()];
  }

  bool may_have_less(size_t op) const {
    const auto found = profile_.known_.find(signature_of(call_of(op), sizes_));
    return found != profile_.known_.end() && found->second.is_repeatable &&
           largest_scratch(found->second, {}) > 0 && bench_.has_room_for(call_of(op));
  }

  const Measurement& standard(const TorchCall& call) const {
    return profile_.known_.at(signature_of(call, sizes_));
  }

  // Goes from algorithm to algorithm with less and less workspace. Calls `see` with the call as a
  // step makes it, and with its measurement. `measured_of(call)` may return null to stop.
  template <class MeasuredOf, class See>
  void walk(const TorchCall& call, const MeasuredOf& measured_of, const See& see) const {
    std::vector<int64_t> spared_bytes;
    const Measurement* more = &standard(call);
    for (int i = 0; i < kMostTries; ++i) {
      const int64_t scratch_bytes = largest_scratch(*more, spared_bytes);
      if (scratch_bytes == 0) return;
      Measurement* const less = measured_of(within(call, scratch_bytes - 1, spared_bytes));
      if (less == nullptr) return;
      if (has(*less, kRunsClaim)) {  // Not workspace: a copy in another memory format.
        spared_bytes.push_back(scratch_bytes);
        continue;
      }
      const int64_t most_bytes = largest_scratch(*less, spared_bytes);
      if (most_bytes >= scratch_bytes) return;
      see(within(call, most_bytes, spared_bytes), *less);
      more = less;
    }
  }

  // In this order the algorithm that the thread has cached is always refused, and each new
  // algorithm is compared at once. Runs once per process, also for measurements from disk, so that
  // the GPU loads the code of these kernels.
  void find_all(const Plain& plain) {
    const auto measured_of = [&](const TorchCall& less) {
      const std::string key = signature_of(less, sizes_);
      if (!profile_.known_.contains(key)) profile_.known_.emplace(key, measure(less, plain));
      return &profile_.known_.at(key);
    };
    const auto compare = [&](const TorchCall& limited, Measurement& measured) {
      const auto made = bench_.hash_results(limited, {});
      const bool is_same = made && made.value() == plain.hashes;
      if (!is_same && !has(measured, kSameBitsClaim)) measured.refuted.emplace_back(kSameBitsClaim);
    };
    walk(plain.call, measured_of, compare);
  }

  Measurement measure(const TorchCall& call, const Plain& plain) const {
    const Result<Measurement> measured = bench_.measure(call, std::nullopt, {});
    if (!measured) return {.refuted = {kRunsClaim}};
    Measurement found = measured.value();
    const Measurement& plainly = standard(plain.call);
    const bool is_same = found.is_repeatable && found.results == plainly.results &&
                         found.result_bytes == plainly.result_bytes;
    if (!is_same) found.refuted.emplace_back(kSameBitsClaim);
    return found;
  }

  void add_form(size_t op, const TorchCall& limited, const Measurement& measured) {
    Form form = step_.program.ops[op].forms[0];
    form.name = fmt::format("within {} bytes", *limited.most_scratch_bytes);
    form.call = CallId(step_.calls.size());
    fill_form(form, limited, measured);
    step_.program.calls.push_back({.text = signature_of(limited, sizes_)});
    step_.calls.push_back(limited);
    step_.program.ops[op].forms.push_back(std::move(form));
  }

  static Error lost_default(const TorchCall& call) {
    return {
        ErrorCode::Unsupported,
        fmt::format("{} makes other bits after cuDNN algorithms with less workspace were tried in "
                    "another thread; set torch.backends.cudnn.benchmark = True, with which "
                    "none are tried, and report this build of PyTorch",
                    full_name(call.handle))};
  }

  Profile& profile_;
  StepProgram& step_;
  const std::vector<int64_t> sizes_;
  const Bench bench_;
  std::vector<size_t> ops_;
};

Status Profile::add_less_scratch(StepProgram& step, TorchDevice& device, std::span<char> room) {
  if (!device.finds_less_scratch()) return Done{};
  const Workplace place{.device = device, .room = room, .devices = step.devices};
  LessScratch less(*this, step, place);
  FITSTEP_TRY_STATUS(less.find());
  less.add_forms();
  return Done{};
}

}  // namespace fitstep::torch_side

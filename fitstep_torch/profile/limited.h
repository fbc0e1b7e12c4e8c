// For measuring a call with a smaller workspace than its kernel requests first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/run/answers.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// While it exists, requests larger than the call's `most_scratch_bytes` are refused, except those
// of the size of a result or in `spared_bytes`.
class Limited {
 public:
  Limited(Answers& answers, const TorchCall& call, const std::vector<int64_t>& size_bytes)
      : answers_(answers) {
    if (!call.most_scratch_bytes) return;
    spared_ = call.spared_bytes;
    for (const TensorRef& ref : tensors_of(call.results))
      spared_.push_back(size_bytes[static_cast<size_t>(ref.storage)]);
    answers_.set_most_unforeseen(*call.most_scratch_bytes, spared_);
  }
  ~Limited() { answers_.set_most_unforeseen(Answers::kNoMost); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  Answers& answers_;
  std::vector<int64_t> spared_;
};

}  // namespace fitstep::torch_side

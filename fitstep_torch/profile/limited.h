// A call that is measured with less scratch than its kernel asks for first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/run/answers.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// While it lives, has requests refused that are larger than the call's scratch may be, but for
// those of its results.
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

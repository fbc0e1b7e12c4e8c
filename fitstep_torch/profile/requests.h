// What the allocator saw during one run of a call, as the requests that a plan answers.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "fitstep_torch/profile/profile.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// Pairs every request with its release.
std::vector<MeasuredRequest> requests_from(const std::vector<MemoryEvent>& events,
                                           const std::vector<at::Tensor>& results);

// Where worker threads ask too, who asks when differs from run to run. So every result has its
// block, and beside them each thread may at any time hold as many blocks of a size as one thread
// was seen to hold at once.
std::vector<MeasuredRequest> requests_of_all_threads(const std::vector<MeasuredRequest>& of_owner,
                                                     const std::vector<MemoryEvent>& events);

// Gives the form of that call what was measured: time, and requests as the program has them.
void fill_form(Form& form, const TorchCall& call, const Measurement& measured);

bool same_sequence(const std::vector<MeasuredRequest>& a, const std::vector<MeasuredRequest>& b);

}  // namespace fitstep::torch_side

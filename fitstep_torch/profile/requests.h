// From the log of one run of a call to the memory requests that a plan answers.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "fitstep_torch/profile/profile.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// Pairs every request with its release.
std::vector<MeasuredRequest> requests_from(const std::vector<MemoryEvent>& events,
                                           const std::vector<at::Tensor>& results);

// For a call whose worker threads request memory too. Their order differs from run to run. So every
// result has its block; and of each size, every thread may at any time hold as many blocks as one
// thread held at once.
std::vector<MeasuredRequest> requests_of_all_threads(const std::vector<MeasuredRequest>& of_owner,
                                                     const std::vector<MemoryEvent>& events);

// Sets time and memory requests of the form from what was measured of its call.
void fill_form(Form& form, const TorchCall& call, const Measurement& measured);

bool same_sequence(const std::vector<MeasuredRequest>& a, const std::vector<MeasuredRequest>& b);

}  // namespace fitstep::torch_side

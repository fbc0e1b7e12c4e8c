// Tests claims about calls by comparing the bits of their results.
//
// If a call's inputs and results do not fit into the room, the test uses as many rows of its batch
// as fit. If a kernel refuses fewer rows, it runs on all rows, in ordinary memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fitstep_torch/device.h"
#include "fitstep_torch/lower.h"

namespace fitstep::torch_side {

// All `sizes` are by storage number.

// Tests the shape-only claims of one call; returns the names of the wrong claims.
Result<std::vector<std::string>> test_shape_only(const TorchCall& call,
                                                 const std::vector<int64_t>& sizes,
                                                 const Workplace& place);

// Arguments of which the kernel reads only the geometry, in storages that no other argument shares.
std::vector<size_t> unread_arguments(const TorchCall& call,
                                     const std::vector<std::string>& refuted);

// The argument whose address the form's only result may take; none if there is none.
std::optional<size_t> taken_argument(const Form& form, const TorchCall& call);

// Whether two calls with equal inputs make equal results; an equal first result.
Result<bool> same_results(const TorchCall& a, const TorchCall& b, const std::vector<int64_t>& sizes,
                          const Workplace& place);

Result<bool> same_first_results(const TorchCall& a, const TorchCall& b,
                                const std::vector<int64_t>& sizes, const Workplace& place);

// Whether a call and the ops that split it make equal results.
Result<bool> same_when_split(const StepProgram& step, const Split& split,
                             const std::vector<int64_t>& sizes, const Workplace& place);

// Whether both chains, from equal inputs, end with equal results.
Result<bool> same_ends(const Chains& chains, const std::vector<int64_t>& sizes,
                       const Workplace& place);

}  // namespace fitstep::torch_side

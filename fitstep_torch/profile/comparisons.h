// Claims about calls, tested by the bits that they make.
//
// Where the operands of a call do not fit into the room, as many rows of its batch are compared as
// do; a kernel that takes no fewer is run on all of them, in ordinary memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fitstep_torch/device.h"
#include "fitstep_torch/lower.h"

namespace fitstep::torch_side {

// All `sizes` are by storage number.

// Tests what the rules claim of one call; returns the names of the claims that are wrong.
Result<std::vector<std::string>> test_shape_only(const TorchCall& call,
                                                 const std::vector<int64_t>& sizes,
                                                 const Workplace& place);

// Arguments that are looked at for their geometry alone, and whose storage is nobody else's.
std::vector<size_t> unread_arguments(const TorchCall& call,
                                     const std::vector<std::string>& refuted);

// The argument whose place the form's only result may take.
std::optional<size_t> taken_argument(const Form& form, const TorchCall& call);

// Whether two calls of the same arguments have the same results, and the same first one.
Result<bool> same_results(const TorchCall& a, const TorchCall& b, const std::vector<int64_t>& sizes,
                          const Workplace& place);

Result<bool> same_first_results(const TorchCall& a, const TorchCall& b,
                                const std::vector<int64_t>& sizes, const Workplace& place);

// Whether a call and its parts make the same.
Result<bool> same_when_split(const StepProgram& step, const Split& split,
                             const std::vector<int64_t>& sizes, const Workplace& place);

// Whether two ways from the same inputs end with the same results.
Result<bool> same_ends(const Chains& chains, const std::vector<int64_t>& sizes,
                       const Workplace& place);

}  // namespace fitstep::torch_side

// In-place results: a result that may have the address of an input of its call, because the kernel
// reads each element of the input before it writes the same element of the result.
//
//   gradient of y   |###|###|###|      threshold_backward, half-way
//   gradient of x   |===|===|###|      one place is enough for both
//
// Each is a claim. The profile compares the bits with those of a result at an address of its own.
// If they are equal, the program gets Write::may_take; plans use it at the last use of the input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fitstep_torch/lower/lower.h"

namespace fitstep::torch_side {

struct InPlace {
  OpId op;
  size_t argument = 0;  // Index in the call of the op's default form.
};

// At most one for each op, in order of ops.
std::vector<InPlace> in_place_results_of(const StepProgram& step);

// Sets Write::may_take: the op's result may have the argument's address.
void allow(const InPlace& in_place, StepProgram& step);

std::string in_place_claim(const TorchCall& call, size_t argument);

// A call on fewer rows of its batch, for a room that is too small for all rows.
struct FewerRows {
  TorchCall call;
  std::vector<int64_t> size_bytes;  // By storage number.
};

// Bytes of a call's inputs and results, without the kernel's workspace.
int64_t operand_bytes(const TorchCall& call, const std::vector<int64_t>& size_bytes);

// Most bytes that inputs and results may have in this room; the rest is for the kernel's workspace.
int64_t most_operand_bytes(std::span<char> room);

// Returns the call on as many rows of its batch (first dimension) as fit into `most_bytes`. Returns
// it unchanged if all rows fit, or if less than half of them fit: then no plan has room for the
// call either. REQUIRES: a call with an in-place result, or a convolution's backward.
FewerRows with_fewer_rows(TorchCall call, std::vector<int64_t> size_bytes, int64_t most_bytes);

// The call on `rows` rows of its batch, or on all if it has fewer.
FewerRows with_rows(TorchCall call, std::vector<int64_t> size_bytes, int64_t rows);

// Rows of its batch; 0 for a call without one.
int64_t rows_of(const TorchCall& call);

}  // namespace fitstep::torch_side

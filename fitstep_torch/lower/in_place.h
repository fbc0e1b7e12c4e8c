// In-place results: those that may lie where an input of their call lies, because the kernel has
// read an element of it before it writes the same one.
//
//   gradient of y   |###|###|###|      threshold_backward, half-way
//   gradient of x   |===|===|###|      one place is enough for both
//
// Each is a claim: the profile compares bits with those of a result in a place of its own, and
// only then says so in the program (Write::may_take). Plans use it where the input ends there.
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
  size_t argument = 0;  // Of the call of the op's default form.
};

// At most one for each op, in order of ops.
std::vector<InPlace> in_place_results_of(const StepProgram& step);

// Lets the op's result take the argument's address.
void allow(const InPlace& in_place, StepProgram& step);

std::string in_place_claim(const TorchCall& call, size_t argument);

// A call on as many rows of its batch as there is room for, where all of them are too many.
struct FewerRows {
  TorchCall call;
  std::vector<int64_t> size_bytes;  // By storage number.
};

// Bytes of a call's inputs and results, without what its kernel asks for beside them.
int64_t operand_bytes(const TorchCall& call, const std::vector<int64_t>& size_bytes);

// The most that operands may have in such a room; what is left is for the kernel's own requests.
int64_t most_operand_bytes(std::span<char> room);

// The call with the first dimension of its batch cut so that its operands fit into `most_bytes`; as
// it is where they do, or where that leaves less than half of it: then no plan has room for the
// call either. REQUIRES: a call with an in-place result, or a convolution's backward.
FewerRows with_fewer_rows(TorchCall call, std::vector<int64_t> size_bytes, int64_t most_bytes);

// The same for a number of rows, at most those that there are.
FewerRows with_rows(TorchCall call, std::vector<int64_t> size_bytes, int64_t rows);

// Rows of its batch; 0 for a call without one.
int64_t rows_of(const TorchCall& call);

}  // namespace fitstep::torch_side

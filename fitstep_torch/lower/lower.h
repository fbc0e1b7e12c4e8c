// Lowering: a tape becomes a program whose ops are as small as their kernels allow.
//
//   tape                                    program
//   t (view)                                -
//   convolution_backward [T,T,T]            weight gradient [F,T,T], then data gradient [T,F,F]
//   _foreach_add_([a, b], 1)                _foreach_add_([a], 1), _foreach_add_([b], 1)
//   native_batch_norm(…, mean, var, …)      the same, and a pure form without mean and var
//   native_dropout                          the same, and a form that restores the generator
//   threshold_backward(grad, y)             the same, and a form that reads y's signs (packing.h)
//   max_pool2d_with_indices(x)              one of ours without indices (pool_codes.h)
//
// Reads are marked by the operator rules, writes make versions, random ops read and write their
// generator's storage. What a rule claims and `claims` has refuted is left out.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/program/program.h"
#include "fitstep_torch/lower/packing.h"
#include "fitstep_torch/lower/pool_codes.h"
#include "fitstep_torch/lower/tape.h"
#include "fitstep_torch/operators.h"

namespace fitstep::torch_side {

// A call that lowering split, and the ops that replace it: a claim for the profile to test.
struct Split {
  TorchCall joint;
  OpId first;
  int32_t parts = 2;
};

// A call that lowering replaced by a faster one of ours: a claim for the profile to test.
struct Replaced {
  TorchCall original;
  OpId op;
};

// A program with what its calls mean to PyTorch. Storage numbers in calls are the program's.
struct StepProgram {
  Program program;
  std::vector<TorchCall> calls;                             // By CallId.
  std::vector<std::optional<at::Tensor>> literals;          // By storage: the bytes of a literal.
  std::vector<std::pair<int32_t, int32_t>> literal_clones;  // (made anew, the literal's storage)
  std::vector<std::optional<at::Generator>> generators;     // By storage.
  std::vector<c10::Device> devices;                         // By storage.
  std::vector<int32_t> storage_of_tape;                     // By number on the tape; -1: not used.
  std::vector<int32_t> region_of_op;                        // By OpId: optimizer call; -1 outside.
  std::vector<std::pair<int32_t, int32_t>> origin_of_op;    // By OpId: call on the tape, entry.
  std::vector<TensorRef> outputs;                           // What the step function returned.
  std::vector<Split> splits;
  std::vector<Replaced> replaced;
  std::vector<Recoded> recoded;
  std::vector<Packed> packed;
  std::vector<std::string> left_out;  // Claims whose test failed, and how.
  int64_t at_once_bytes = 0;          // Of small numbers beside the program, which Python has.
  std::vector<OpId> unrepeatable;     // Do not repeat their own bits from run to run.
  // (op, number of its default form's call): what stands there now, in the kernels of any plan.
  std::map<std::pair<OpId, size_t>, c10::IValue> changed_numbers;
};

std::vector<int64_t> sizes_of(const Program& program);  // In bytes, by storage.

// The tape as small ops: views dropped, lists and joint gradients split, rebindings and outputs
// that alias persistent storages made explicit. The first half of lowering.
std::vector<TapeOp> split_ops(Tape& tape, const Claims& claims);

// Errors: an op that changes the geometry of a storage (set_, resize_), an op on a tensor that is
// not on the CPU. They name the user's file and line.
Result<StepProgram> lower(Tape tape, const Claims& claims);

}  // namespace fitstep::torch_side

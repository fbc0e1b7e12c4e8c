// A segment: the operators that a step calls between two moments at which Python needs a value.
// Most steps are one segment. A segment is recorded once, then followed in every step.
//
//   step     forward, backward | .item() | optimizer
//   segments        0          |         |     1
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "fitstep_torch/lower.h"

namespace fitstep::torch_side {

// A number of a recorded call with its value in another run: see number_places().
struct ChangedNumber {
  int32_t op = 0;  // On the tape.
  NumberPlace place;
  c10::IValue value;
};

struct Segment {
  Tape tape;
  // By storage on the tape: for an external, bytes from its begin to the first tensor that was
  // used; -1 for storages that the segment makes.
  std::vector<int64_t> met_at_bytes;
  std::vector<int64_t> first_bytes;  // The same after settle().
  std::vector<int64_t> whole_bytes;  // Sizes of storages before the first settle().
  std::vector<TensorRef> made;       // By storage: its first tensor.
  std::vector<bool> is_kept;         // By storage: whether the program leaves it to Python.
  std::vector<bool> is_fixed;        // By storage: it is a home.
  std::vector<bool> is_state;        // By storage: of the model, but no home.
  std::vector<bool> is_whole;  // By storage, no home: offsets on the tape count from its begin.
  std::vector<uintptr_t> home_address;  // By storage: address of the home; 0: unknown.
  int64_t at_once_bytes = 0;  // Most bytes of tensors that ran at once and are no externals, and of
                              // copies of lent memory.

  // Stand-ins for generators passed by Python, in order of appearance. A call may pass others.
  std::vector<at::Generator> generators;

  // Cuts storages that are no homes to the used part: a batch may be a part of a data set.
  void settle();

  // Undoes settle(), and forgets names and kinds of storages.
  void unbind();

  // Storages that existed before the segment, in order of first use.
  std::vector<int32_t> externals() const;

  // Offset in bytes between a storage's begin in a run, where it was first used at `met_at_bytes`,
  // and its begin on the tape.
  int64_t shift_bytes(size_t storage, int64_t met_at_bytes) const;

  // Moves the tensors of `ops`, calls of this tape, to their offsets in such a run; by storage.
  void shift(std::vector<TapeOp>& ops, const std::vector<int64_t>& met_at_bytes) const;

  // Takes over the numbers of a run with these `externals`. Returns whether all of them were known
  // to change; from now on they are.
  bool take(const std::vector<ChangedNumber>& changed, const std::vector<at::Tensor>& externals);

 private:
  bool is_relative(size_t storage) const;
  void widen(int32_t storage, const at::Tensor& met);
};

// Whether the first `count` calls of two tapes are equal, except for numbers that may change.
bool begin_alike(const Tape& a, const Tape& b, size_t count);

// Whether two constants of an argument are equal, except for numbers that may change from run to
// run (takes_any_number()). Calls `differs(position, value in b)` for each number that differs; the
// position is -1 outside lists.
bool are_alike(const c10::OperatorHandle& op, size_t argument, const c10::IValue& a,
               const c10::IValue& b,
               const std::function<void(int32_t, const c10::IValue&)>& differs);

}  // namespace fitstep::torch_side

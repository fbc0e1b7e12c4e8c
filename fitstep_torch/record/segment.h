// A segment: the operators that one step calls from one moment at which Python needs a value to the
// next; for most steps from its begin to its end. Recorded once, then followed again and again.
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

// A number of a recorded call that another run has otherwise: see number_places().
struct ChangedNumber {
  int32_t op = 0;  // On the tape.
  NumberPlace place;
  c10::IValue value;
};

struct Segment {
  Tape tape;
  // By storage on the tape, of those that were there before: bytes from the storage's begin to the
  // tensor that was met first; -1 for storages that the segment makes.
  std::vector<int64_t> met_at_bytes;
  std::vector<int64_t> first_bytes;  // The same, on a tape that settle() has moved.
  std::vector<int64_t> whole_bytes;  // Sizes of storages, before settle() was first called.
  std::vector<TensorRef> made;       // By storage: the tensor that it was made as.
  std::vector<bool> is_kept;         // By storage: whether the program leaves it to Python.
  std::vector<bool> is_fixed;        // By storage: must begin where it began (a home).
  std::vector<bool> is_state;        // By storage: the model's, in memory of the caller's.
  std::vector<bool> is_whole;  // By storage, no home: places on the tape count from its begin.
  std::vector<uintptr_t> home_address;  // By storage: where it is at home; 0 if that is not known.
  int64_t at_once_bytes = 0;  // At most, of what runs at once before it and is no external, and of
                              // copies of what is in memory of somebody else.

  // Stand for generators that Python gives to operators, in the order in which they were met: a
  // call may bring another one each time.
  std::vector<at::Generator> generators;

  // Where storages that are no homes begin and end is decided by the tensors in them that the
  // segment uses: a batch may be a part of a data set.
  void settle();

  // As before anybody said what its storages are, and before settle().
  void unbind();

  // Storages that were there before, in the order in which they were met.
  std::vector<int32_t> externals() const;

  // Bytes between where a storage begins on the tape and where it does in a run that has met it
  // first at `met_at_bytes`.
  int64_t shift_bytes(size_t storage, int64_t met_at_bytes) const;

  // Calls of this tape to where their tensors are in such a run, by storage.
  void shift(std::vector<TapeOp>& ops, const std::vector<int64_t>& met_at_bytes) const;

  // Takes the numbers of a run, in which `externals` stand for those of the segment. Whether they
  // were known to change; they are from then on.
  bool take(const std::vector<ChangedNumber>& changed, const std::vector<at::Tensor>& externals);

 private:
  bool is_relative(size_t storage) const;
  void widen(int32_t storage, const at::Tensor& met);
};

// Whether the calls before `count` of two tapes are the same, but for numbers that may change.
bool begin_alike(const Tape& a, const Tape& b, size_t count);

// Whether two constants for an argument are the same but for numbers that may change from run to
// run: see takes_any_number(). `differs` is called for each that does, with its position (-1
// outside lists) and what it is in `b`.
bool are_alike(const c10::OperatorHandle& op, size_t argument, const c10::IValue& a,
               const c10::IValue& b,
               const std::function<void(int32_t, const c10::IValue&)>& differs);

}  // namespace fitstep::torch_side

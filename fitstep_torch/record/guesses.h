// Guesses: what a preview finds in small tensors whose bytes nobody knows yet. Ones, and what small
// operators compute from those, so that numbers that belong together still do.
//
//   start = randint(0, 99, (2,))   1   1
//   end = start + 32               33  33      data[start:end] has its length
//
// One guess is as good as another: it leads to a program that is planned ahead, and what Python
// does with it is undone.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/flat_hash_map.h>

#include <cstddef>
#include <vector>

namespace fitstep::torch_side {

// So small that an operator runs at once where all its numbers are known.
bool is_small(const at::Tensor& tensor);

class Guesses {
 public:
  // The arguments of a call, the last of the stack, with guesses in the place of hollow ones. None
  // if it is not for small tensors alone; then what it writes is guessed anew.
  torch::jit::Stack arguments(const torch::jit::Stack& stack, size_t count,
                              const std::vector<size_t>& written);
  // Makes the call with these, if there are any: so are the guesses of its results, which are the
  // last of `made`.
  void follow(const c10::OperatorHandle& op, torch::jit::Stack arguments,
              const torch::jit::Stack& made);
  void fill(const at::Tensor& hollow);  // With its guess, if it is small.
  void forget() { bytes_.clear(); }

  void mark(const at::Tensor& computed);  // From guesses: it holds one, too.
  static bool is_in(const at::Tensor& tensor);
  // All storages with guesses that somebody holds, since the first; a tensor over each.
  std::vector<at::Tensor> alive() const;

 private:
  at::Tensor over(const at::Tensor& tensor);
  void put_into(const c10::Storage& storage, const void* bytes);

  ska::flat_hash_map<const c10::StorageImpl*, at::Tensor> bytes_;  // Each a storage of its own.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made_;
};

}  // namespace fitstep::torch_side

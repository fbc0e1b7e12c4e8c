// Guesses: values that a preview uses for small tensors whose bytes are not computed yet. A guess
// is 1, or what small operators compute from guesses, so that related numbers stay consistent.
//
//   start = randint(0, 99, (2,))   1   1
//   end = start + 32               33  33      data[start:end] has 32 rows
//
// A wrong guess does no harm: it leads to a program that is planned ahead, and all that Python does
// in a preview is undone.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/flat_hash_map.h>

#include <cstddef>
#include <vector>

namespace fitstep::torch_side {

// Whether a tensor is so small that operators on it run at once if its bytes are known.
bool is_small(const at::Tensor& tensor);

class Guesses {
 public:
  // The arguments of a call (the last of the stack), with guesses instead of hollow tensors. Empty
  // if no argument is hollow or one is not small; the guesses of written arguments are then
  // dropped.
  torch::jit::Stack arguments(const torch::jit::Stack& stack, size_t count,
                              const std::vector<size_t>& written);
  // Runs the call on `arguments`, unless these are empty. Its results become the guesses of the
  // recorded results, the last of `made`.
  void follow(const c10::OperatorHandle& op, torch::jit::Stack arguments,
              const torch::jit::Stack& made);
  void fill(const at::Tensor& hollow);  // Gives a small tensor its guess as bytes.
  void forget() { bytes_.clear(); }

  void mark(const at::Tensor& computed);  // Computed from guesses, so it holds one.
  static bool is_in(const at::Tensor& tensor);
  // A tensor over each living storage that has ever held a guess.
  std::vector<at::Tensor> alive() const;

 private:
  at::Tensor over(const at::Tensor& tensor);
  void put_into(const c10::Storage& storage, const void* bytes);

  ska::flat_hash_map<const c10::StorageImpl*, at::Tensor> bytes_;  // Guesses.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made_;
};

}  // namespace fitstep::torch_side

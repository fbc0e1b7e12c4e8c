#include "fitstep_torch/record/guesses.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 16;  // Integers: indices, counts, flags.
constexpr size_t kMostWholeBytes = size_t{8} * kMostElements;
constexpr size_t kMostFractionBytes = 4096;

bool is_whole(const at::Tensor& tensor) {
  return c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

void free_guess(void* bytes) { delete[] static_cast<char*>(bytes); }

bool has_room(const at::Tensor& tensor) {
  const size_t bytes = tensor.storage().nbytes();
  return bytes > 0 && bytes <= (is_whole(tensor) ? kMostWholeBytes : kMostFractionBytes);
}

}  // namespace

bool is_small(const at::Tensor& tensor) {
  if (is_whole(tensor)) return tensor.numel() <= kMostElements;
  return tensor.dim() == 0 && tensor.device().is_cpu();
}

bool Guesses::is_in(const at::Tensor& tensor) {
  return tensor.has_storage() && tensor.storage().data_ptr().get_deleter() == &free_guess;
}

// A tensor of the same geometry over the guess of its storage.
at::Tensor Guesses::over(const at::Tensor& tensor) {
  at::Tensor& bytes = bytes_[storage_of(tensor)];
  if (!bytes.defined()) {
    const auto size = static_cast<int64_t>(tensor.storage().nbytes());
    const auto item = static_cast<int64_t>(tensor.itemsize());
    bytes = at::ones({(size + item - 1) / item}, at::kFloat).to(tensor.scalar_type());
  }
  return tensor_over(bytes.storage(), geometry_in(tensor));
}

torch::jit::Stack Guesses::arguments(const torch::jit::Stack& stack, size_t count,
                                     const std::vector<size_t>& written) {
  torch::jit::Stack found(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end());
  bool is_guessed = false;
  bool is_possible = true;
  each_argument(found, count, [&](const at::Tensor& one) {
    is_guessed |= one.has_storage() && is_hollow(one);
    is_possible &= one.device().is_cpu() && !is_other_layout(one) && is_small(one) && has_room(one);
  });
  std::vector<at::Tensor> changed;
  for (const size_t i : written)
    each_tensor(found[i], [&](const at::Tensor& one) { changed.push_back(one); });
  is_possible &= std::ranges::all_of(changed, [](const at::Tensor& one) { return is_hollow(one); });
  if (is_guessed && is_possible) {
    const BelowAutograd no_autograd;
    const auto guess = [&](const at::Tensor& one) { return is_hollow(one) ? over(one) : one; };
    for (c10::IValue& value : found) value = with_others(value, guess);
    return found;
  }
  for (const at::Tensor& one : changed) {
    if (one.has_storage()) bytes_.erase(storage_of(one));
  }
  return {};
}

void Guesses::follow(const c10::OperatorHandle& op, torch::jit::Stack arguments,
                     const torch::jit::Stack& made) {
  const size_t results = op.schema().returns().size();
  const bool is_called = !arguments.empty();
  const BelowAutograd no_autograd;
  try {
    if (is_called) op.callBoxed(&arguments);
  } catch (const std::exception&) {
    arguments.clear();
  }
  std::vector<at::Tensor> found;
  for (const c10::IValue& value : arguments)
    if (is_called) each_tensor(value, [&](const at::Tensor& one) { found.push_back(one); });
  size_t place = 0;
  each_argument(made, results, [&](const at::Tensor& one) {
    const size_t at = place++;
    if (!one.has_storage() || !is_hollow(one)) return;
    if (at < found.size() && bytes_.find(storage_of(one)) != bytes_.end() &&
        found[at].is_alias_of(bytes_[storage_of(one)]))
      return;  // Written in place: the guess is updated.
    bytes_.erase(storage_of(one));
    if (at < found.size() && has_room(one) && found[at].sizes() == one.sizes())
      over(one).copy_(found[at]);
  });
}

void Guesses::fill(const at::Tensor& hollow) {
  if (!hollow.device().is_cpu() || !has_room(hollow)) return;
  const BelowAutograd no_autograd;
  static_cast<void>(over(hollow));
  put_into(hollow.storage(), bytes_[storage_of(hollow)].data_ptr());
}

void Guesses::mark(const at::Tensor& computed) {
  if (!computed.has_storage() || !computed.device().is_cpu() || !has_room(computed)) return;
  const bool is_its_own = computed.storage().use_count() == 1;
  if (is_its_own) put_into(computed.storage(), computed.storage().data());
}

// Gives the storage a copy of `bytes`, with a deleter by which is_in() recognises a guess.
void Guesses::put_into(const c10::Storage& storage, const void* bytes) {
  auto copy = std::make_unique<char[]>(storage.nbytes());  // NOLINT(*-avoid-c-arrays)
  std::memcpy(copy.get(), bytes, storage.nbytes());
  void* const raw = copy.release();
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(
      c10::DataPtr(raw, raw, &free_guess, storage.device()));
  made_.emplace_back(storage.getWeakStorageImpl());
}

std::vector<at::Tensor> Guesses::alive() const {
  std::vector<at::Tensor> found;
  for (const auto& weak : made_) {
    const auto storage = weak.lock();
    if (!storage) continue;
    const TensorRef bytes{
        .sizes = {static_cast<int64_t>(storage->nbytes())}, .strides = {1}, .dtype = at::kByte};
    found.push_back(tensor_over(c10::Storage(storage), bytes));
  }
  return found;
}

}  // namespace fitstep::torch_side

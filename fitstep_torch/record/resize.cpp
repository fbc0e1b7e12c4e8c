// resize_() and set_(): which memory a tensor has.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "fitstep_torch/operators.h"
#include "fitstep_torch/record/follower.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

// With a memory format the strides change, also where the size is the same.
bool changes_nothing(const std::string& name, std::span<const c10::IValue> arguments) {
  return name == "aten::resize_" && arguments[2].isNone() &&
         arguments[0].toTensor().sizes() == arguments[1].toIntVector();
}

bool gets_first_memory(const std::string& name, const c10::IValue& resized) {
  return name.starts_with("aten::resize_") && resized.isTensor() &&
         resized.toTensor().device().is_cpu() && resized.toTensor().storage().nbytes() == 0;
}

// Two previews meet equal bytes, where those of new memory are anything.
void clear(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  if (storage.nbytes() > 0) std::memset(storage.mutable_data(), 0, storage.nbytes());
}

}  // namespace

// Runs where the program has nothing to do with any of the arguments, as where one is being loaded
// or is one more tensor over a storage. A preview could not undo it to a tensor that has memory.
void Follower::resize(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack) {
  const std::string& name = op.operator_name().name;
  const size_t count = op.schema().arguments().size();
  const auto arguments = std::span(*stack).last(count);
  if (changes_nothing(name, arguments)) {  // The tensor is given back.
    torch::jit::drop(*stack, count - 1);
    return;
  }
  if (full_name(op) == "aten::set_.source_Tensor") {  // As `.data =`, of which nobody hears either.
    run(op, keys, stack);
    return;
  }
  bool is_apart = true;
  each_argument(*stack, count, [&](const at::Tensor& one) {
    is_apart &= is_untouched(one) && !where_.is_home(storage_of(one)->data());
    is_apart &= mode_ != Mode::Preview || one.storage().nbytes() == 0;
  });
  for (const c10::IValue& argument : arguments) {
    if (!argument.isStorage()) continue;
    const c10::Storage storage = argument.toStorage();
    const c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
    is_apart &= !is_hollow(*impl) && numbers_.find(impl) == numbers_.end();
  }
  if (!is_apart) {
    python_.refuse(full_name(op), "changes which memory a tensor uses");
    return;
  }
  const bool is_first = gets_first_memory(name, arguments[0]);
  run(op, keys, stack);
  if (is_first) clear(stack->back().toTensor());
}

}  // namespace fitstep::torch_side

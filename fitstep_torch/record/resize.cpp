// resize_() and set_(): operators that give a tensor other memory.
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

// A memory format changes strides, even if the size stays.
bool changes_nothing(const std::string& name, std::span<const c10::IValue> arguments) {
  return name == "aten::resize_" && arguments[2].isNone() &&
         arguments[0].toTensor().sizes() == arguments[1].toIntVector();
}

bool gets_first_memory(const std::string& name, const c10::IValue& resized) {
  return name.starts_with("aten::resize_") && resized.isTensor() &&
         resized.toTensor().device().is_cpu() && resized.toTensor().storage().nbytes() == 0;
}

// Zeros uninitialised memory, so that two previews see equal bytes.
void clear(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  if (storage.nbytes() > 0) std::memset(storage.mutable_data(), 0, storage.nbytes());
}

}  // namespace

// Runs at once if no recorded operator uses the arguments, as when a tensor is being loaded. A
// preview refuses a tensor that has memory, because it could not undo the change.
void Follower::resize(const Called& called) {
  const std::string& name = called.op.operator_name().name;
  const auto arguments = std::span(*called.stack).last(called.count);
  if (changes_nothing(name, arguments)) {  // Returns the tensor.
    torch::jit::drop(*called.stack, called.count - 1);
    return;
  }
  if (full_name(called.op) == "aten::set_.source_Tensor") {  // Like `.data =`: no operator.
    run(called);
    return;
  }
  bool is_apart = true;
  each_argument(*called.stack, called.count, [&](const at::Tensor& one) {
    is_apart &= is_untouched(one) && !where_.is_home(storage_of(one)->data());
    is_apart &= mode_ != Mode::Preview || one.storage().nbytes() == 0;
  });
  for (const c10::IValue& argument : arguments) {
    if (!argument.isStorage()) continue;
    const c10::Storage storage = argument.toStorage();
    const c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
    is_apart &= !is_hollow(*impl) && met_.numbers.find(impl) == met_.numbers.end();
  }
  if (!is_apart) {
    python_.refuse(full_name(called.op), "changes which memory a tensor uses");
    return;
  }
  const bool is_first = gets_first_memory(name, arguments[0]);
  run(called);
  if (is_first) clear(called.stack->back().toTensor());
}

}  // namespace fitstep::torch_side

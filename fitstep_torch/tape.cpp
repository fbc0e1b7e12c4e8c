#include "fitstep_torch/tape.h"

#include <cstddef>
#include <cstdint>
#include <set>

#include "fitstep_torch/op_rules.h"

namespace fitstep::torch_side {

std::set<int32_t> written_storages(const Tape& tape) {
  std::set<int32_t> written;
  for (const TapeOp& op : tape.ops) {
    for (size_t i = 0; i < op.call.arguments.size(); ++i) {
      if (op.call.arguments[i].kind == Value::Kind::Constant || !is_written(op.call, i)) continue;
      for (const auto& tensor : op.call.arguments[i].tensors) {
        if (tensor.has_value()) written.insert(tensor->storage);
      }
    }
  }
  return written;
}

std::set<int32_t> read_storages(const Tape& tape) {
  std::set<int32_t> read;
  for (const TapeOp& op : tape.ops) {
    if (full_name(op.call.handle) == "aten::detach") continue;
    for (const TensorRef& tensor : tensors_of(op.call.arguments)) read.insert(tensor.storage);
  }
  return read;
}

}  // namespace fitstep::torch_side

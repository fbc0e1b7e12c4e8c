#include "fitstep_torch/recorder.h"

#include <algorithm>

#include "fitstep_torch/op_rules.h"

namespace fitstep::torch_side {

int32_t Recorder::storage_of(const at::Tensor& fake) const {
  const auto found =
      number_of_.find(fake.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  return found == number_of_.end() ? -1 : found->second;
}

int32_t Recorder::bind(const at::Tensor& fake, const TapeStorage& as) {
  if (const int32_t known = storage_of(fake); known >= 0) return known;
  const c10::Storage& storage = fake.unsafeGetTensorImpl()->unsafe_storage();
  const auto number = static_cast<int32_t>(tape_.storages.size());
  number_of_.emplace(storage.unsafeGetStorageImpl(), number);
  storages_.emplace_back(storage.getWeakStorageImpl());
  tape_.storages.push_back(as);
  tape_.storages.back().size_bytes = static_cast<int64_t>(storage.nbytes());
  tape_.storages.back().device = fake.device();
  alive_.push_back(number);
  return number;
}

TensorRef Recorder::reference(const at::Tensor& fake) {
  int32_t number = storage_of(fake);
  if (number < 0) {
    TapeStorage temporary;
    temporary.born = static_cast<int64_t>(tape_.ops.size());
    number = bind(fake, temporary);
  }
  // An op that grows a storage (resize_ of an empty result) does so before its first use.
  auto& size_bytes = tape_.storages[static_cast<size_t>(number)].size_bytes;
  size_bytes = std::max(
      size_bytes, static_cast<int64_t>(fake.unsafeGetTensorImpl()->unsafe_storage().nbytes()));
  return {.storage = number,
          .sizes = fake.sizes().vec(),
          .strides = fake.strides().vec(),
          .offset = fake.storage_offset(),
          .dtype = fake.scalar_type(),
          .is_conjugate = fake.is_conj(),
          .is_negative = fake.is_neg(),
          .device = fake.device().type()};
}

void Recorder::sweep_dead() {
  const auto now = static_cast<int64_t>(tape_.ops.size());
  std::erase_if(alive_, [&](int32_t number) {
    const auto index = static_cast<size_t>(number);
    if (!storages_[index].expired()) return false;
    tape_.storages[index].dead = now;
    return true;
  });
}

void Recorder::record(TorchCall call, Source source, int32_t region) {
  sweep_dead();
  call.has_host_numbers = region >= 0;
  tape_.ops.push_back({.call = std::move(call), .source = std::move(source), .region = region});
}

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

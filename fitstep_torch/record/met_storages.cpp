#include "fitstep_torch/record/met_storages.h"

#include <cstddef>
#include <cstdint>

namespace fitstep::torch_side {

int32_t MetStorages::add_external(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  add_made(storage, static_cast<int64_t>(storage.nbytes()), tensor.device());
  met_at_bytes.back() = first_byte(tensor);
  // Not the tensor itself, because user code may give it another storage (`.data =`).
  externals.back() = tensor_over(storage, geometry_in(tensor));
  return static_cast<int32_t>(storages.size()) - 1;
}

void MetStorages::add_made(const c10::Storage& storage, int64_t bytes, c10::Device device) {
  numbers.emplace(storage.unsafeGetStorageImpl(), static_cast<int32_t>(storages.size()));
  storages.push_back(storage.getWeakStorageImpl());
  size_bytes.push_back(bytes);
  devices.push_back(device);
  met_at_bytes.push_back(-1);
  externals.emplace_back();
  held.emplace_back();
  is_written.push_back(false);
}

void MetStorages::cut_to(size_t count) {
  if (count >= storages.size()) return;
  for (size_t i = count; i < storages.size(); ++i) {
    if (externals[i].defined()) numbers.erase(storage_of(externals[i]));
  }
  const auto behind = static_cast<std::ptrdiff_t>(count);
  storages.erase(storages.begin() + behind, storages.end());  // Weak pointers have no default.
  devices.erase(devices.begin() + behind, devices.end());
  size_bytes.resize(count);
  met_at_bytes.resize(count);
  externals.resize(count);
  held.resize(count);
  is_written.resize(count);
}

}  // namespace fitstep::torch_side

#include "fitstep_torch/device/taken_out.h"

#include <cstddef>
#include <exception>
#include <utility>

#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

void free_host(void* bytes) { delete[] static_cast<char*>(bytes); }

}  // namespace

TakenOut::TakenOut(std::shared_ptr<TorchDevice> device, const std::vector<at::Tensor>& tensors)
    : device_(std::move(device)) {
  try {
    for (const at::Tensor& tensor : tensors) take(tensor);
  } catch (...) {
    put_back();
    throw;
  }
}

void TakenOut::take(const at::Tensor& tensor) {
  c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
  const bool is_taken = storage->data_ptr().get_deleter() == &free_host;
  if (is_taken || storage->nbytes() == 0 || storage->device() != device_->device()) return;
  if (holders_of(tensor) > 2) return;
  auto* const bytes = new char[storage->nbytes()];
  c10::DataPtr on_host(bytes, bytes, &free_host, storage->device());
  device_->copy(bytes, storage->mutable_data(), static_cast<int64_t>(storage->nbytes()));
  storage->set_data_ptr_noswap(std::move(on_host));
  storages_.emplace_back(tensor.storage().getWeakStorageImpl());
  addresses_.push_back(bytes);
}

void TakenOut::put_back() {
  std::exception_ptr failure;
  for (size_t i = 0; i < storages_.size(); ++i) {
    const auto storage = storages_[i].lock();
    if (!storage || storage->data() != addresses_[i]) continue;
    try {
      c10::DataPtr own = device_->allocator()->allocate(storage->nbytes());
      device_->copy(own.get(), storage->data(), static_cast<int64_t>(storage->nbytes()));
      storage->set_data_ptr_noswap(std::move(own));
    } catch (...) {
      failure = std::current_exception();  // Try the others too.
    }
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace fitstep::torch_side

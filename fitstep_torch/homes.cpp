#include "fitstep_torch/homes.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <cstring>

#include "fitstep_torch/allocator.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

Result<std::unique_ptr<Homes>> Homes::open(int64_t size_bytes, int64_t reserve_bytes) {
  install_allocator();
  auto device = std::make_unique<HostDevice>();
  FITSTEP_TRY(std::unique_ptr<Arena> arena, Arena::make(*device, size_bytes));
  FITSTEP_TRY_STATUS(register_arena(arena->base(), arena->size_bytes()));
  return std::unique_ptr<Homes>(new Homes(std::move(device), std::move(arena), reserve_bytes));
}

Homes::~Homes() { close(); }

Status Homes::move_in(const at::Tensor& tensor, int64_t offset_bytes, int64_t aliases) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const auto size_bytes = static_cast<int64_t>(storage->nbytes());
  FITSTEP_TRY(char* address, arena_->address(offset_bytes, size_bytes));
  // mutable_data() first: it gives a copy-on-write storage its own bytes.
  std::memcpy(address, storage->mutable_data(), static_cast<size_t>(size_bytes));
  const bool may_be_seen = static_cast<int64_t>(tensor.storage().use_count()) > aliases + 1;
  c10::DataPtr old =
      storage->set_data_ptr(c10::DataPtr(address, c10::Device(c10::DeviceType::CPU)));
  if (may_be_seen) kept_.push_back(std::move(old));
  inside_.emplace_back(tensor.storage().getWeakStorageImpl());
  return Done{};
}

Result<at::Tensor> Homes::make(const TensorRef& geometry, int64_t size_bytes,
                               int64_t offset_bytes) {
  FITSTEP_TRY(char* address, arena_->address(offset_bytes, size_bytes));
  const c10::Storage storage = borrowed_storage(address, size_bytes);
  inside_.emplace_back(storage.getWeakStorageImpl());
  return tensor_over(storage, geometry);
}

bool Homes::is_home(const at::Tensor& tensor, int64_t offset_bytes) const {
  return tensor.storage().data() == arena_->base() + offset_bytes;
}

void Homes::close() {
  if (is_closed_) return;
  is_closed_ = true;
  const char* begin = arena_->base();
  const char* end = begin + arena_->size_bytes();
  for (const auto& weak : inside_) {
    const auto storage = weak.lock();
    if (!storage) continue;
    const char* at = static_cast<const char*>(storage->data());
    if (at < begin || at >= end) continue;  // Moved on by somebody else.
    c10::DataPtr ordinary = c10::GetCPUAllocator()->allocate(storage->nbytes());
    std::memcpy(ordinary.get(), at, storage->nbytes());
    storage->set_data_ptr_noswap(std::move(ordinary));
  }
  kept_.clear();
  unregister_arena(begin);
  malloc_trim(0);
}

}  // namespace fitstep::torch_side

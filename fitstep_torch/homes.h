// Homes: where persistent storages are between steps.
//
// A persistent storage keeps its StorageImpl, so every alias that user code holds stays true; only
// its data pointer moves, into the arena at compile and back to ordinary memory at close:
//
//   before            compiled                    closed
//   p -> malloc       p -> arena + offset         p -> malloc
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "fitstep/run/arena.h"
#include "fitstep/run/host_device.h"
#include "fitstep_torch/call.h"

namespace fitstep::torch_side {

class Homes {
 public:
  // Opens an arena of `size_bytes`; its last `reserve_bytes` answer unforeseen requests.
  static Result<std::unique_ptr<Homes>> open(int64_t size_bytes, int64_t reserve_bytes);
  ~Homes();

  const Arena& arena() const { return *arena_; }
  char* reserve() const { return arena_->base() + arena_->size_bytes() - reserve_bytes_; }
  int64_t reserve_bytes() const { return reserve_bytes_; }

  // Moves the tensor's storage to `offset_bytes`, content included. Aliases that do not go through
  // the StorageImpl (a numpy view) would be left behind, so where there may be one the old memory
  // stays allocated until close(): `aliases` is how many tensors are known to share the storage.
  Status move_in(const at::Tensor& tensor, int64_t offset_bytes, int64_t aliases);

  // A new tensor of that geometry whose storage of `size_bytes` lies at `offset_bytes`.
  Result<at::Tensor> make(const TensorRef& geometry, int64_t size_bytes, int64_t offset_bytes);

  // Whether the tensor's storage still lies at `offset_bytes`.
  bool is_home(const at::Tensor& tensor, int64_t offset_bytes) const;

  // Moves everything back to ordinary memory. Later calls do nothing.
  void close();

 private:
  Homes(std::unique_ptr<HostDevice> device, std::unique_ptr<Arena> arena, int64_t reserve_bytes)
      : device_(std::move(device)), arena_(std::move(arena)), reserve_bytes_(reserve_bytes) {}

  std::unique_ptr<HostDevice> device_;
  std::unique_ptr<Arena> arena_;
  int64_t reserve_bytes_ = 0;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> inside_;
  std::vector<c10::DataPtr> kept_;  // Old memory that something may still look at.
  bool is_closed_ = false;
};

}  // namespace fitstep::torch_side

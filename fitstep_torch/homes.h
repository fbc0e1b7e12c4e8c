// Homes: where persistent storages are between steps.
//
// A persistent storage keeps its StorageImpl, so every alias that user code holds stays true; only
// its data pointer moves, once, into the arena at compile. At close it stays where it is and owns
// its bytes from then on; the rest of the arena is given back. So pointers that were taken
// meanwhile (a numpy view) stay true, and close() needs no memory:
//
//   before            compiled                    closed
//   p -> malloc       p -> arena + offset         p -> the same bytes; all others given back
//
// Beside the arena lies that of the host tier, where plans put what they evict, and where homes are
// that do not fit into the arena. It is one for all plans, and as large as the largest of them
// needs; with homes in it, which cannot move, it has all that it may have from the start.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/run/arena.h"
#include "fitstep_torch/call.h"

namespace fitstep::torch_side {

class Homes {
 public:
  struct Place {
    TierId tier = kDeviceTier;
    int64_t offset_bytes = 0;
  };

  // Opens an arena of `size_bytes`; its last `reserve_bytes` answer unforeseen requests. The host
  // tier may have up to `host_capacity_bytes`, none of which are taken yet; its homes lie below
  // `host_bottom_bytes`.
  static Result<std::unique_ptr<Homes>> open(int64_t size_bytes, int64_t reserve_bytes,
                                             int64_t host_capacity_bytes = 0,
                                             int64_t host_bottom_bytes = 0);
  ~Homes();

  const Arena& arena() const { return *arena_; }
  char* reserve() const { return arena_->base() + arena_->size_bytes() - reserve_bytes_; }
  int64_t reserve_bytes() const { return reserve_bytes_; }
  int64_t host_capacity_bytes() const { return host_capacity_bytes_; }
  int64_t host_bottom_bytes() const { return host_bottom_bytes_; }

  // Sees to it that the host tier has `size_bytes`. What was open on a smaller one has to be opened
  // again.
  Status reserve_host(int64_t size_bytes);
  const std::shared_ptr<Arena>& host() const { return host_; }  // Null until it is needed.
  const std::shared_ptr<Device>& device() const { return device_; }

  // What nobody uses between steps when homes end at `bottom_bytes`.
  std::span<char> free_above(int64_t bottom_bytes) const {
    return {arena_->base() + bottom_bytes, arena_->base() + arena_->size_bytes()};
  }

  // Moves the tensor's storage to its home, content included. Aliases that do not go through
  // the StorageImpl (an older numpy view) are left behind, so where there may be one the old memory
  // stays allocated as long as the storage: `aliases` is how many tensors are known to share it.
  Status move_in(const at::Tensor& tensor, const Place& home, int64_t aliases);

  // A new tensor of that geometry whose storage of `size_bytes` lies at `home`.
  Result<at::Tensor> make(const TensorRef& geometry, int64_t size_bytes, const Place& home);

  // Whether the tensor's storage still lies there.
  bool is_home(const at::Tensor& tensor, const Place& home) const;

  // Where that address is, if it is inside one of the arenas.
  std::optional<Place> place_of(const void* address) const;

  // In a process that was forked from the one that opened this: the memory is not there, so every
  // access to a storage with its home in it is an error from now on, and close() does nothing.
  void forsake();

  // Gives each storage its own bytes and the rest of the arena back. Later calls do nothing.
  void close();

 private:
  Homes(std::shared_ptr<Device> device, std::shared_ptr<Arena> arena, int64_t reserve_bytes,
        int64_t host_capacity_bytes, int64_t host_bottom_bytes)
      : device_(std::move(device)),
        arena_(std::move(arena)),
        reserve_bytes_(reserve_bytes),
        host_capacity_bytes_(host_capacity_bytes),
        host_bottom_bytes_(host_bottom_bytes) {}

  const std::shared_ptr<Arena>& arena_of(TierId tier) const {
    return tier == kHostTier ? host_ : arena_;
  }
  void close_arena(const std::shared_ptr<Arena>& arena);

  std::shared_ptr<Device> device_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<Arena> host_;
  int64_t reserve_bytes_ = 0;
  int64_t host_capacity_bytes_ = 0;
  int64_t host_bottom_bytes_ = 0;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> inside_;
  std::multimap<char*, c10::DataPtr> kept_;  // By home: old memory that may still be looked at.
  bool is_closed_ = false;
};

}  // namespace fitstep::torch_side

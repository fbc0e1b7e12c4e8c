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
// needs; with homes in it, which cannot move, it has all that it may have from the start. Without a
// host tier such homes are on the disk: what plans call the host tier is then a file that is mapped
// (file_memory.h), for homes alone. What plans evict to the disk goes to another file, which is one
// for all plans too, and grows.
//
// A tensor of the host beside a GPU's arena (an optimizer's step count) has its home in memory of
// the host; the few bytes that plans have for it in the arena stay unused.
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
#include "fitstep/run/disk_file.h"
#include "fitstep/run/tiered_device.h"
#include "fitstep_torch/device/torch_device.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

struct HomesOptions {
  int64_t size_bytes = 0;           // Of the arena;
  int64_t reserve_bytes = 0;        // the last of which answer unforeseen requests.
  int64_t host_capacity_bytes = 0;  // What the host tier may have.
  int64_t host_bottom_bytes = 0;    // Its homes lie below this.
  bool has_homes_on_disk = false;   // The host tier is a file, and has nothing but homes.
  int64_t disk_capacity_bytes = 0;  // What the file may have.
  std::optional<DiskFileOptions> disk;
};

class Homes {
 public:
  struct Place {
    TierId tier = kDeviceTier;
    int64_t offset_bytes = 0;
  };

  // Opens the arena; of the tiers below it nothing is taken yet, but for homes.
  static Result<std::unique_ptr<Homes>> open(std::shared_ptr<TorchDevice> device,
                                             const HomesOptions& options);
  ~Homes();

  const Arena& arena() const { return *arena_; }
  char* reserve() const { return arena_->base() + arena_->size_bytes() - options_.reserve_bytes; }
  const HomesOptions& options() const { return options_; }

  // Has the arena's bytes up to `end_bytes` backed by pages, as far as they are not.
  Status touch(int64_t end_bytes, int32_t threads);

  // Sees to it that the host tier has `size_bytes`. What was open on a smaller one has to be opened
  // again.
  Status reserve_host(int64_t size_bytes);

  // Between steps: gives the memory back in which the host tier has had what is no home.
  void discard_evicted();

  const std::shared_ptr<Arena>& host() const { return host_; }  // Null until it is needed.
  const std::shared_ptr<TieredDevice>& device() const { return device_; }
  TorchDevice& torch_device() const { return *torch_device_; }

  // To and from the files; none without any.
  std::optional<DiskTraffic> disk_traffic() const;

  // Tensors at home whose memory was given to numpy, each over all bytes of its storage.
  std::vector<at::Tensor> lent() const;

  // What nobody uses between steps when homes end at `bottom_bytes`.
  std::span<char> free_above(int64_t bottom_bytes) const {
    return {arena_->base() + bottom_bytes, arena_->base() + arena_->size_bytes()};
  }

  // Moves the tensor's storage to its home, content included. Aliases that do not go through
  // the StorageImpl (an older numpy view) are left behind, so where there may be one the old memory
  // stays allocated as long as the storage: `aliases` is how many tensors are known to share it.
  Status move_in(const at::Tensor& tensor, const Place& home, int64_t aliases);

  // Points the tensor's storage at its home, where the step that has just run has left its content.
  Status take_over(const at::Tensor& tensor, const Place& home);

  // Gives a storage memory of its own, content included, and its home back, if somebody other than
  // `handles` tensors holds it. Throws as PyTorch does where there is no memory.
  void move_out(const at::Tensor& tensor, int64_t handles);

  // A new tensor of that geometry whose storage of `size_bytes` lies at `home`.
  Result<at::Tensor> make(const TensorRef& geometry, int64_t size_bytes, const Place& home,
                          c10::Device device);

  // The memory of the host that the home of a tensor of the host has, beside a GPU's arena.
  char* beside(int64_t offset_bytes, int64_t size_bytes);

  // Where a storage of that size and device lies when it is at home there.
  Result<char*> address_of(const Place& home, int64_t size_bytes, c10::Device device);

  // Whether the tensor's storage still lies there.
  bool is_home(const at::Tensor& tensor, const Place& home) const;

  // Where that address is, if it is inside one of the arenas.
  std::optional<Place> place_of(const void* address) const;

  // In a process that was forked from the one that opened this: the memory is not there, so every
  // access to a storage with its home in it is an error from now on, and close() does nothing.
  void forsake();

  // Gives each storage its own bytes, and the rest of the arena and the file back. Later calls do
  // nothing.
  void close();

 private:
  Homes(std::shared_ptr<TorchDevice> torch_device, std::shared_ptr<TieredDevice> device,
        std::shared_ptr<Arena> arena, HomesOptions options)
      : torch_device_(std::move(torch_device)),
        device_(std::move(device)),
        arena_(std::move(arena)),
        options_(std::move(options)) {}

  const std::shared_ptr<Arena>& arena_of(TierId tier) const {
    return tier == kHostTier ? host_ : arena_;
  }
  // Where arenas cannot be given back in parts: moves what lies there to ordinary memory, as far as
  // there is any.
  void leave_arenas();
  bool move_out(c10::StorageImpl& storage);  // False where there is no memory.
  void note_inside(const c10::Storage& storage);
  void close_arena(const std::shared_ptr<Arena>& arena);

  std::shared_ptr<TorchDevice> torch_device_;
  std::shared_ptr<TieredDevice> device_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<Arena> host_;
  std::shared_ptr<FileMemory> in_file_;  // Null where homes are in memory.
  HomesOptions options_;
  int64_t touched_bytes_ = 0;  // Of the arena, from its base.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> inside_;
  size_t most_inside_ = 1024;                // Then those that are gone are dropped.
  std::multimap<char*, c10::DataPtr> kept_;  // By home: old memory that may still be looked at.
  std::map<int64_t, std::shared_ptr<std::vector<char>>> beside_;  // By offset of the home.
  bool is_closed_ = false;
};

}  // namespace fitstep::torch_side

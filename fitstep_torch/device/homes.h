// Homes: where persistent storages are between steps.
//
// A persistent storage keeps its StorageImpl, so every alias in user code stays valid. Its data
// pointer moves once, into the arena, at compile. close() leaves the bytes where they are and makes
// the storage own them; the rest of the arena is freed. So pointers taken after compile (a numpy
// view) stay valid, and close() needs no memory:
//
//   before            compiled                    closed
//   p -> malloc       p -> arena + offset         p -> the same bytes; all others freed
//
// The host tier has a second arena, for evicted storages and for homes that do not fit into the
// device arena. All plans share it, and it is as large as the largest plan needs. If it holds
// homes, which cannot move, it has its full capacity from the start. Without a host tier, homes
// that do not fit lie in a mapped file (file_memory.h), which plans see as the host tier and which
// holds only homes. Storages evicted to the disk go to another file, which all plans share and
// which grows.
//
// With a GPU's arena, a CPU tensor (an optimizer's step count) has its home in host memory. The few
// bytes that a plan gives it in the arena stay unused.
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
  int64_t size_bytes = 0;           // Of the arena, the reserve included.
  int64_t reserve_bytes = 0;        // The arena's last bytes: for requests that no plan foresaw.
  int64_t host_capacity_bytes = 0;  // Most bytes of the host tier.
  int64_t host_bottom_bytes = 0;    // Homes in the host tier lie below this offset.
  bool has_homes_on_disk = false;   // The host tier is a file, and holds only homes.
  int64_t disk_capacity_bytes = 0;  // Most bytes of the file for evicted storages.
  std::optional<DiskFileOptions> disk;
};

class Homes {
 public:
  struct Place {
    TierId tier = kDeviceTier;
    int64_t offset_bytes = 0;
  };

  // Opens the arena. The tiers below take no memory yet, unless they hold homes.
  static Result<std::unique_ptr<Homes>> open(std::shared_ptr<TorchDevice> device,
                                             const HomesOptions& options);
  ~Homes();

  const Arena& arena() const { return *arena_; }
  char* reserve() const { return arena_->base() + arena_->size_bytes() - options_.reserve_bytes; }
  const HomesOptions& options() const { return options_; }

  // Backs the arena's bytes up to `end_bytes` with memory pages. Pages that are there stay.
  Status touch(int64_t end_bytes, int32_t threads);

  // Makes the host tier at least `size_bytes` large. Copy lanes opened on a smaller host tier have
  // to be opened again.
  Status reserve_host(int64_t size_bytes);

  // Between steps: frees the host memory that held evicted storages; homes stay.
  void discard_evicted();

  const std::shared_ptr<Arena>& host() const { return host_; }  // Null until it is needed.
  const std::shared_ptr<TieredDevice>& device() const { return device_; }
  TorchDevice& torch_device() const { return *torch_device_; }

  // Bytes written to and read from the files; none if there is no file.
  std::optional<DiskTraffic> disk_traffic() const;

  // Storages at home that numpy shares: for each a tensor over all of its bytes.
  std::vector<at::Tensor> lent() const;

  // The arena's bytes above the homes, which end at `bottom_bytes`: unused between steps.
  std::span<char> free_above(int64_t bottom_bytes) const {
    return {arena_->base() + bottom_bytes, arena_->base() + arena_->size_bytes()};
  }

  // Moves the tensor's storage to its home, content included. `aliases` is the number of tensors
  // known to share the storage. If more share it, one may be an older numpy view, which does not
  // follow the StorageImpl: the old memory then stays allocated as long as the storage.
  Status move_in(const at::Tensor& tensor, const Place& home, int64_t aliases);

  // Points the tensor's storage at its home. The step that has just run left the content there.
  Status take_over(const at::Tensor& tensor, const Place& home);

  // Moves a storage out of its home into memory of its own, content included, if more than
  // `handles` tensors hold it; else does nothing. Throws PyTorch's error if there is no memory.
  void move_out(const at::Tensor& tensor, int64_t handles);

  // A new tensor of this geometry, whose storage of `size_bytes` lies at `home`.
  Result<at::Tensor> make(const TensorRef& geometry, int64_t size_bytes, const Place& home,
                          c10::Device device);

  // Host memory for the home of a CPU tensor, where the arena is a GPU's.
  char* beside(int64_t offset_bytes, int64_t size_bytes);

  // The address of a storage of this size and device at this home.
  Result<char*> address_of(const Place& home, int64_t size_bytes, c10::Device device);

  // Whether the tensor's storage lies at this home.
  bool is_home(const at::Tensor& tensor, const Place& home) const;

  // Tier and offset of an address; none if it is in neither arena.
  std::optional<Place> place_of(const void* address) const;

  // For a forked child process, in which the arena has no memory. From now on every access to a
  // storage with a home raises an error, and close() does nothing.
  void forsake();

  // Makes each storage own its bytes; frees all other memory, and the file. Later calls do nothing.
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
  // For arenas that cannot be freed in parts: moves storages to ordinary memory while there is
  // some.
  void leave_arenas();
  bool move_out(c10::StorageImpl& storage);  // False if there is no memory.
  void note_inside(const c10::Storage& storage);
  void close_arena(const std::shared_ptr<Arena>& arena);

  std::shared_ptr<TorchDevice> torch_device_;
  std::shared_ptr<TieredDevice> device_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<Arena> host_;
  std::shared_ptr<FileMemory> in_file_;  // Null if homes are in memory.
  HomesOptions options_;
  int64_t touched_bytes_ = 0;  // From the arena's base.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> inside_;
  size_t most_inside_ = 1024;                // Above it, freed storages are dropped.
  std::multimap<char*, c10::DataPtr> kept_;  // By home: old memory that numpy may show.
  std::map<int64_t, std::shared_ptr<std::vector<char>>> beside_;  // By offset of the home.
  bool is_closed_ = false;
};

}  // namespace fitstep::torch_side

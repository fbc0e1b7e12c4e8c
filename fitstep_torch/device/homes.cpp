#include "fitstep_torch/device/homes.h"

#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>

#include "fitstep/base/check.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

// The bytes of a storage after close(): freed with the last storage that uses them.
struct Home {
  Home(std::shared_ptr<Arena> in, char* address) : arena(std::move(in)), begin(address) {}
  ~Home() { arena->discard(begin, size_bytes); }
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;

  std::shared_ptr<Arena> arena;
  char* begin;
  int64_t size_bytes = 0;
  std::vector<c10::DataPtr> kept;
};

// The storage lies in our memory now. From now on is_lent() sees when numpy shares it.
void own(c10::StorageImpl& storage) {
  if (!storage.device().is_cpu() || storage.allocator() != nullptr) return;
  storage.set_allocator(c10::GetCPUAllocator());
  storage.set_resizable(true);
}

void leave_home(void* home) { delete static_cast<std::shared_ptr<Home>*>(home); }

using Bytes = std::shared_ptr<std::vector<char>>;
void leave_bytes(void* bytes) { delete static_cast<Bytes*>(bytes); }

}  // namespace

Result<std::unique_ptr<Homes>> Homes::open(std::shared_ptr<TorchDevice> torch_device,
                                           const HomesOptions& options) {
  FITSTEP_TRY(std::shared_ptr<TieredDevice> device, torch_device->open(options.disk));
  FITSTEP_TRY(std::shared_ptr<Arena> arena, Arena::make(device, options.size_bytes));
  FITSTEP_TRY_STATUS(torch_device->register_arena(arena->base(), arena->size_bytes()));
  std::unique_ptr<Homes> homes(
      new Homes(std::move(torch_device), std::move(device), std::move(arena), options));
  if (options.host_bottom_bytes > 0)
    FITSTEP_TRY_STATUS(homes->reserve_host(options.host_capacity_bytes));
  return homes;
}

Status Homes::touch(int64_t end_bytes, int32_t threads) {
  if (end_bytes <= touched_bytes_) return Done{};
  FITSTEP_TRY_STATUS(
      torch_device_->touch(arena_->base() + touched_bytes_, end_bytes - touched_bytes_, threads));
  touched_bytes_ = end_bytes;
  return Done{};
}

Status Homes::reserve_host(int64_t size_bytes) {
  if (size_bytes == 0 || (host_ != nullptr && host_->size_bytes() >= size_bytes)) return Done{};
  host_.reset();  // First: old and new must not exist at once.
  if (options_.has_homes_on_disk) {
    FITSTEP_CHECK(options_.disk.has_value(), "homes on disk need a folder");
    in_file_ = std::make_shared<FileMemory>(*options_.disk);
    FITSTEP_TRY(host_, Arena::make(in_file_, size_bytes, kHostTier));
    device_->set_homes(in_file_);
    return Done{};
  }
  FITSTEP_TRY(host_, Arena::make(device_, size_bytes, kHostTier));
  const std::string why = device_->why_pageable();
  if (why.empty() || options_.host_bottom_bytes == 0) return Done{};
  return Error{
      ErrorCode::Device,
      fmt::format("the GPU cannot use homes on the host: their memory could not be page-locked "
                  "({}); lower host_budget=, or leave it out",
                  why)};
}

void Homes::discard_evicted() {
  if (host_ == nullptr || options_.has_homes_on_disk) return;
  const int64_t begin_bytes = std::min(options_.host_bottom_bytes, host_->size_bytes());
  host_->discard(host_->base() + begin_bytes, host_->size_bytes() - begin_bytes);
}

std::optional<DiskTraffic> Homes::disk_traffic() const {
  const std::shared_ptr<DiskFile> disk = device_->disk();
  if (disk == nullptr && in_file_ == nullptr) return std::nullopt;
  DiskTraffic sum = in_file_ == nullptr ? DiskTraffic{} : in_file_->traffic();
  if (disk != nullptr) {
    sum.written_bytes += disk->traffic().written_bytes;
    sum.read_bytes += disk->traffic().read_bytes;
    sum.is_direct = disk->is_direct();
  }
  return sum;
}

Homes::~Homes() { close(); }

char* Homes::beside(int64_t offset_bytes, int64_t size_bytes) {
  Bytes& bytes = beside_[offset_bytes];
  if (bytes == nullptr)
    bytes = std::make_shared<std::vector<char>>(static_cast<size_t>(size_bytes));
  return bytes->data();
}

Result<char*> Homes::address_of(const Place& home, int64_t size_bytes, c10::Device device) {
  FITSTEP_TRY(char* address, arena_of(home.tier)->address(home.offset_bytes, size_bytes));
  if (!device.is_cpu() || torch_device_->is_cpu()) return address;
  return beside(home.offset_bytes, size_bytes);
}

Status Homes::move_in(const at::Tensor& tensor, const Place& home, int64_t aliases) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const auto size_bytes = static_cast<int64_t>(storage->nbytes());
  FITSTEP_TRY(char* address, address_of(home, size_bytes, storage->device()));
  // mutable_data() first: it gives a copy-on-write storage its own bytes.
  torch_device_->copy(address, storage->mutable_data(), size_bytes);
  const bool may_be_seen = holders_of(tensor) > aliases + 1;
  c10::DataPtr old = storage->set_data_ptr(c10::DataPtr(address, storage->device()));
  if (may_be_seen) kept_.emplace(address, std::move(old));
  own(*storage);
  note_inside(tensor.storage());
  return Done{};
}

Status Homes::take_over(const at::Tensor& tensor, const Place& home) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  FITSTEP_TRY(char* address,
              address_of(home, static_cast<int64_t>(storage->nbytes()), storage->device()));
  storage->set_data_ptr_noswap(c10::DataPtr(address, storage->device()));
  note_inside(tensor.storage());
  return Done{};
}

// A weak reference keeps the shell of a freed storage, so expired references are erased.
void Homes::note_inside(const c10::Storage& storage) {
  inside_.emplace_back(storage.getWeakStorageImpl());
  if (inside_.size() <= most_inside_) return;
  std::erase_if(inside_, [](const auto& weak) { return weak.expired(); });
  most_inside_ = 2 * inside_.size() + 1024;
}

void Homes::move_out(const at::Tensor& tensor, int64_t handles) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  if (holders_of(tensor) <= handles) return;
  if (!place_of(storage->data()).has_value()) return;
  c10::Allocator* const allocator =
      storage->device().is_cpu() ? c10::GetCPUAllocator() : torch_device_->allocator();
  c10::DataPtr own = allocator->allocate(storage->nbytes());
  torch_device_->copy(static_cast<char*>(own.get()), storage->mutable_data(),
                      static_cast<int64_t>(storage->nbytes()));
  storage->set_data_ptr_noswap(std::move(own));
}

Result<at::Tensor> Homes::make(const TensorRef& geometry, int64_t size_bytes, const Place& home,
                               c10::Device device) {
  FITSTEP_TRY(char* address, address_of(home, size_bytes, device));
  const c10::Storage storage = borrowed_storage(address, size_bytes, device);
  note_inside(storage);
  return tensor_over(storage, geometry);
}

std::vector<at::Tensor> Homes::lent() const {
  std::vector<at::Tensor> found;
  for (const auto& weak : inside_) {
    auto storage = weak.lock();
    if (!storage || storage->resizable() || storage->allocator() == nullptr) continue;
    if (!place_of(storage->data()).has_value()) continue;
    const auto size_bytes = static_cast<int64_t>(storage->nbytes());
    found.push_back(tensor_over(c10::Storage(std::move(storage)),
                                {.sizes = {size_bytes}, .strides = {1}, .dtype = at::kByte}));
  }
  return found;
}

bool Homes::is_home(const at::Tensor& tensor, const Place& home) const {
  const std::shared_ptr<Arena>& arena = arena_of(home.tier);
  if (arena == nullptr) return false;
  const auto found = beside_.find(home.offset_bytes);
  const bool is_beside = tensor.is_cpu() && found != beside_.end();
  const char* const address = is_beside ? found->second->data() : arena->base() + home.offset_bytes;
  return tensor.storage().data() == address;
}

std::optional<Homes::Place> Homes::place_of(const void* address) const {
  for (const TierId tier : {kDeviceTier, kHostTier}) {
    const std::shared_ptr<Arena>& arena = arena_of(tier);
    if (arena == nullptr) continue;
    const int64_t offset_bytes = static_cast<const char*>(address) - arena->base();
    if (offset_bytes >= 0 && offset_bytes < arena->size_bytes())
      return Place{.tier = tier, .offset_bytes = offset_bytes};
  }
  for (const auto& [offset_bytes, bytes] : beside_) {
    if (bytes->data() == address) return Place{.tier = kDeviceTier, .offset_bytes = offset_bytes};
  }
  return std::nullopt;
}

void Homes::forsake() {
  if (is_closed_) return;
  is_closed_ = true;
  for (const auto& weak : inside_) {
    const auto storage = weak.lock();
    if (!storage) continue;
    storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
        "this tensor lies in the arena of a fitstep step that the parent process has compiled; a "
        "forked process has no such memory. Use the tensor in the parent, pass a copy that was "
        "made before the fork (tensor.clone()), or start this process with the method 'spawn'.");
  }
  // The child's system may give these addresses to ordinary tensors, so they are no arena any more.
  torch_device_->unregister_arena(arena_->base());
  // Otherwise the drive keeps the files' blocks for as long as the child has them open.
  device_->forsake_disk();
  if (in_file_ != nullptr) in_file_->forsake();
}

void Homes::close() {
  if (is_closed_) return;
  is_closed_ = true;
  char* const begin = arena_->base();
  if (!torch_device_->is_cpu()) leave_arenas();
  close_arena(arena_);
  if (host_ != nullptr && options_.host_bottom_bytes > 0) close_arena(host_);
  kept_.clear();
  host_.reset();
  device_->close_disk();
  device_->set_homes(nullptr);
  torch_device_->unregister_arena(begin);
  malloc_trim(0);
}

void Homes::leave_arenas() {
  std::map<char*, int32_t> sharing;
  for (const auto& weak : inside_) {
    if (const auto storage = weak.lock()) ++sharing[static_cast<char*>(storage->mutable_data())];
  }
  bool has_room = true;
  for (const auto& weak : inside_) {
    const auto storage = weak.lock();
    if (!storage || storage->nbytes() == 0) continue;
    char* const at = static_cast<char*>(storage->mutable_data());
    const std::optional<Place> place = place_of(at);
    if (!place.has_value()) continue;
    if (storage->device().is_cpu()) {
      const Bytes& bytes = beside_.at(place->offset_bytes);
      storage->set_data_ptr_noswap(
          c10::DataPtr(at, new Bytes(bytes), &leave_bytes, storage->device()));
    } else if (has_room && sharing[at] == 1) {
      has_room = move_out(*storage);
    }
  }
}

bool Homes::move_out(c10::StorageImpl& storage) {
  try {
    c10::DataPtr own = torch_device_->allocator()->allocate(storage.nbytes());
    torch_device_->copy(own.get(), storage.mutable_data(), static_cast<int64_t>(storage.nbytes()));
    storage.set_data_ptr_noswap(std::move(own));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void Homes::close_arena(const std::shared_ptr<Arena>& arena) {
  arena->enter_forks();  // The tensors in it own it now, and are ordinary again.
  char* const begin = arena->base();
  char* const end = begin + arena->size_bytes();
  std::map<char*, std::shared_ptr<Home>> homes;  // One for all storages at the same address.
  for (const auto& weak : inside_) {
    const auto storage = weak.lock();
    if (!storage) continue;
    char* at = static_cast<char*>(storage->mutable_data());
    if (at < begin || at >= end) continue;  // Somebody else has moved it.
    std::shared_ptr<Home>& home = homes[at];
    if (!home) home = std::make_shared<Home>(arena, at);
    home->size_bytes = std::max(home->size_bytes, static_cast<int64_t>(storage->nbytes()));
    storage->set_data_ptr_noswap(
        c10::DataPtr(at, new std::shared_ptr<Home>(home), &leave_home, storage->device()));
  }
  char* rest = begin;
  for (const auto& [at, home] : homes) {
    if (rest < at) arena->discard(rest, at - rest);
    rest = std::max(rest, at + home->size_bytes);
    for (auto [kept, last] = kept_.equal_range(at); kept != last; ++kept)
      home->kept.push_back(std::move(kept->second));
  }
  arena->discard(rest, end - rest);
}

}  // namespace fitstep::torch_side

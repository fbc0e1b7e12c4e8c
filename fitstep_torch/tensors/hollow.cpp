#include "fitstep_torch/tensors/hollow.h"

#include <c10/core/CPUAllocator.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep_torch/tensors/tensors.h"

namespace fitstep::torch_side {
namespace {

constexpr int64_t kSpaceBytes = int64_t{1} << 44;
constexpr int64_t kChunkBytes = int64_t{1} << 20;  // Backed by memory at the first access.

// Hands out addresses and takes them back; there is no memory behind them.
class Space {
 public:
  Space() {
    void* made = mmap(nullptr, static_cast<size_t>(kSpaceBytes), PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    FITSTEP_CHECK(made != MAP_FAILED, "no address space for recorded tensors");
    base_ = static_cast<char*>(made);
  }

  bool has(const void* address) const { return address >= base_ && address < base_ + kSpaceBytes; }

  char* take(int64_t size_bytes) {
    const int64_t rounded = round(size_bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<char*>& free = free_[rounded];
    if (!free.empty()) {
      char* const found = free.back();
      free.pop_back();
      return found;
    }
    FITSTEP_CHECK(next_ + rounded <= kSpaceBytes, "recorded tensors need more than 16 TiB");
    char* const made = base_ + next_;
    next_ += rounded;
    return made;
  }

  void give_back(char* address, int64_t size_bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_[round(size_bytes)].push_back(address);
  }

  char* base() const { return base_; }

 private:
  static int64_t round(int64_t size_bytes) {
    return (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  }

  char* base_ = nullptr;
  int64_t next_ = 0;
  std::mutex mutex_;
  std::map<int64_t, std::vector<char*>> free_;  // By size.
};

Space& space() {
  static auto* const made = new Space();  // Never freed: storages may outlive it.
  return *made;
}

struct Block {
  char* address;
  int64_t size_bytes;
};

void free_block(void* block) {
  const auto* of = static_cast<Block*>(block);
  space().give_back(of->address, of->size_bytes);
  delete of;
}

struct sigaction before;
std::atomic<int64_t> touched{0};
std::atomic<int32_t> watchers{0};
constexpr size_t kMostChunks = 4096;
std::array<std::atomic<char*>, kMostChunks> chunks;
std::atomic<size_t> chunk_count{0};

void on_fault(int number, siginfo_t* info, void* context) {
  const auto* const address = static_cast<const char*>(info->si_addr);
  if (space().has(address)) {
    char* const chunk = space().base() + (address - space().base()) / kChunkBytes * kChunkBytes;
    if (mprotect(chunk, static_cast<size_t>(kChunkBytes), PROT_READ | PROT_WRITE) == 0) {
      ++touched;
      const size_t at = chunk_count.fetch_add(1);
      if (at < kMostChunks) chunks.at(at) = chunk;
      return;
    }
  }
  // Not our address: do what the earlier handler would do.
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(number, info, context);
  } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
    sigaction(number, &before, nullptr);  // The access repeats and ends the process.
  } else {
    before.sa_handler(number);
  }
}

}  // namespace

at::Tensor make_hollow(const TensorRef& ref, int64_t size_bytes, c10::Device device) {
  c10::DataPtr data(nullptr, device);
  if (size_bytes > 0) {
    char* const address = space().take(size_bytes);
    data = c10::DataPtr(address, new Block{address, size_bytes}, &free_block, device);
  }
  c10::Allocator* const allocator =
      device.is_cpu() ? c10::GetCPUAllocator() : c10::GetAllocator(device.type());
  return tensor_over(
      c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                         size_bytes, std::move(data), allocator,
                                                         /*resizable=*/allocator != nullptr)),
      ref);
}

bool is_hollow(const c10::StorageImpl& storage) { return space().has(storage.data()); }

bool is_hollow(const at::Tensor& tensor) {
  return tensor.has_storage() && space().has(tensor.unsafeGetTensorImpl()->unsafe_storage().data());
}

void fill_hollow(c10::StorageImpl& hollow, c10::StorageImpl& with) {
  hollow.set_data_ptr_noswap(with.set_data_ptr(c10::DataPtr(nullptr, with.device())));
}

HollowFaults::HollowFaults() {
  if (watchers.fetch_add(1) > 0) return;
  space();
  struct sigaction ours {};
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGSEGV, &ours, &before);
}

HollowFaults::~HollowFaults() {
  if (watchers.fetch_sub(1) > 1) return;
  sigaction(SIGSEGV, &before, nullptr);
  static_cast<void>(take());
}

int64_t HollowFaults::take() {
  const size_t count = std::min(chunk_count.exchange(0), kMostChunks);
  for (size_t i = 0; i < count; ++i) {
    mmap(chunks.at(i), static_cast<size_t>(kChunkBytes), PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  }
  return touched.exchange(0);
}

}  // namespace fitstep::torch_side

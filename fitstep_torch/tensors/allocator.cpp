#include "fitstep_torch/tensors/allocator.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <bit>
#include <cstring>

#include "fitstep_torch/tensors/tensors.h"

namespace fitstep::torch_side {
namespace {

// Ordinary memory begins with its size and a mark, because a deleter gets only the address. Memory
// that MKL-DNN took from the earlier allocator has no mark.
constexpr size_t kHeaderBytes = 64;
struct Header {
  int64_t size_bytes = 0;
  uint64_t mark = 0;
};
static_assert(sizeof(Header) <= kHeaderBytes);

uint64_t mark_of(const void* address) {
  return std::bit_cast<uint64_t>(address) ^ uint64_t { 0x66697473'74657021 };
}
// Above the priority of any allocator that PyTorch itself sets.
constexpr uint8_t kPriority = 100;

// Alignment of addresses in the reserve and in a lent room.
constexpr int64_t kAddressAlignment = 64;

ArenaRanges arenas;

std::atomic<int64_t> live_bytes = 0;
std::atomic<int64_t> most_bytes = 0;
c10::Allocator* ordinary = nullptr;

// Shared by a thread that runs steps and its kernels' workers. Never freed: a worker may outlive
// the thread that adopted it.
thread_local Answers* adopted = nullptr;  // The answers for this thread.
thread_local bool is_owner = false;
thread_local int32_t thread_number = 0;  // Among the owner's workers; the owner is 0.

void note_release(void* address, int64_t size_bytes) {
  if (adopted != nullptr) adopted->note_release(thread_number, address, size_bytes);
}

void release(void* address) {
  if (address == nullptr) return;
  if (arenas.contains(address)) {
    note_release(address, 0);
    return;
  }
  char* base = static_cast<char*>(address) - kHeaderBytes;
  Header header;
  std::memcpy(&header, base, sizeof header);
  if (header.mark != mark_of(address)) {
    ordinary->raw_deallocate(address);
    return;
  }
  live_bytes.fetch_sub(header.size_bytes, std::memory_order_relaxed);
  note_release(address, header.size_bytes);
  ordinary->raw_deallocate(base);
}

char* take_ordinary(size_t size) {
  char* base = static_cast<char*>(ordinary->raw_allocate(size + kHeaderBytes));
  const auto size_bytes = static_cast<int64_t>(size);
  const Header header{.size_bytes = size_bytes, .mark = mark_of(base + kHeaderBytes)};
  std::memcpy(base, &header, sizeof header);
  const int64_t now = live_bytes.fetch_add(size_bytes, std::memory_order_relaxed) + size_bytes;
  int64_t most = most_bytes.load(std::memory_order_relaxed);
  while (most < now && !most_bytes.compare_exchange_weak(most, now)) {
  }
  return base + kHeaderBytes;
}

class PlannedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    if (size == 0) return wrap(nullptr);
    if (adopted == nullptr) return wrap(take_ordinary(size));
    const auto size_bytes = static_cast<int64_t>(size);
    const Answer answer = adopted->answer(size_bytes);
    char* const address = answer.address == nullptr ? take_ordinary(size) : answer.address;
    if (const auto content = adopted->content_for(answer)) std::memset(address, *content, size);
    adopted->note_request(thread_number, address, size_bytes);
    return wrap(address);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* target, const void* source, std::size_t count) const override {
    std::memcpy(target, source, count);
  }

 private:
  static c10::DataPtr wrap(void* address) {
    return {address, address, &release, c10::Device(c10::DeviceType::CPU)};
  }
};

}  // namespace

void install_allocator() {
  static const bool done = [] {
    static PlannedAllocator allocator;
    ordinary = c10::GetCPUAllocator();
    c10::SetCPUAllocator(&allocator, kPriority);
    return true;
  }();
  static_cast<void>(done);
}

bool is_of_allocator(c10::DeleterFnPtr deleter) {
  return deleter == &release || (ordinary != nullptr && deleter == ordinary->raw_deleter());
}

Answers& own_answers() {
  if (!is_owner) {
    adopted = new Answers(kAddressAlignment);
    is_owner = true;
  }
  return *adopted;
}

Status register_arena(const char* base, int64_t size_bytes) { return arenas.add(base, size_bytes); }
void unregister_arena(const char* base) { arenas.remove(base); }

void adopt_worker_threads() {
  Answers* const answers = &own_answers();
  const BelowAutograd below;
  // One element per thread. Never freed: a thread may end after the allocator is gone.
  thread_local auto& one_each = *new at::Tensor;
  const int64_t threads = at::get_num_threads();
  if (!one_each.defined() || one_each.numel() != threads) one_each = at::empty({threads});
  // Uses PyTorch's compiled loop, because at::parallel_for, compiled here, may be serial.
  at::TensorIterator::borrowing_nullary_op(one_each).for_each(
      [answers](char**, const int64_t*, int64_t, int64_t) {
        if (is_owner) return;
        adopted = answers;
        thread_number = at::get_thread_num();
      },
      /*grain_size=*/1);
}

void reset_counted_peak() { most_bytes = live_bytes.load(); }
int64_t counted_live_bytes() { return live_bytes.load(); }
int64_t counted_peak_bytes() { return most_bytes.load(); }

}  // namespace fitstep::torch_side

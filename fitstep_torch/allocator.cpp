#include "fitstep_torch/allocator.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

// Ordinary memory carries its size in front, because a deleter gets nothing but the address.
constexpr size_t kHeaderBytes = 64;
// Above the priority of any allocator that PyTorch itself sets.
constexpr uint8_t kPriority = 100;

struct Range {
  std::atomic<uintptr_t> begin = 0;
  std::atomic<uintptr_t> end = 0;
};
std::array<Range, 64> arenas;
std::mutex arenas_mutex;

std::atomic<int64_t> live_bytes = 0;
std::atomic<int64_t> most_bytes = 0;
c10::Allocator* ordinary = nullptr;

bool in_arena(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  for (const Range& range : arenas) {
    const uintptr_t end = range.end.load(std::memory_order_relaxed);
    if (end == 0) continue;
    if (value >= range.begin.load(std::memory_order_relaxed) && value < end) return true;
  }
  return false;
}

// Addresses on loan, first fit. Few requests are live at once: those of one op.
class Loan {
 public:
  Loan(char* base, int64_t size_bytes) : begin_(base), end_(base + size_bytes) {}

  int64_t used_bytes() const {
    int64_t used = 0;
    for (const auto& [at, size_bytes] : used_) used += size_bytes;
    return used;
  }

  char* take(int64_t size_bytes) {
    char* at = begin_;
    for (const auto& [other, size] : used_) {
      if (other - at >= size_bytes) break;
      at = other + size;
    }
    if (end_ - at < size_bytes) return nullptr;
    used_.emplace(at, (size_bytes + kAlignment - 1) / kAlignment * kAlignment);
    return at;
  }

  void give_back(char* address) { used_.erase(address); }

 private:
  static constexpr int64_t kAlignment = 64;
  char* begin_;
  char* end_;
  std::map<char*, int64_t> used_;
};

// What one thread that runs steps shares with the worker threads of its kernels. Never freed: a
// worker may outlive the thread that adopted it.
struct Context {
  std::atomic_flag lock = ATOMIC_FLAG_INIT;
  bool is_active = false;
  bool is_logging = false;
  std::span<const Expected> expected;
  size_t next = 0;
  std::vector<char> state;  // Per expected request: 0 not yet asked, 1 served, 2 released.
  char* reserve = nullptr;
  int64_t reserve_bytes = 0;
  int64_t reserve_used = 0;
  std::optional<Loan> loan;
  std::vector<Event> log;
  AllocatorCounters counters;
};

struct Locked {
  explicit Locked(Context& of) : context(of) {
    while (context.lock.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Locked() { context.lock.clear(std::memory_order_release); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  Context& context;
};

thread_local Context* adopted = nullptr;  // The context that this thread's requests belong to.
thread_local bool is_owner = false;
thread_local int32_t thread_number = 0;  // Among the owner's workers; 0 for itself.

Context& own_context() {
  if (!is_owner) {
    adopted = new Context;
    is_owner = true;
  }
  return *adopted;
}

bool may_serve(const Context& context, size_t index, int64_t size_bytes) {
  const Expected& request = context.expected[index];
  if (context.state[index] != 0 || request.size_bytes != size_bytes) return false;
  for (const int32_t other : request.after_release_of) {
    if (context.state[static_cast<size_t>(other)] == 1) return false;
  }
  return true;
}

// Index of the expected request that this one is; expected.size() if it is unforeseen. A request
// that may come from any thread may also come in any order.
size_t find_expected(const Context& context, int64_t size_bytes) {
  const size_t count = context.expected.size();
  for (size_t i = context.next; i < count; ++i) {
    if (may_serve(context, i, size_bytes)) return i;
    if (context.state[i] == 0 && !context.expected[i].is_any_thread) return count;
  }
  return count;
}

// Null where ordinary memory has to serve it.
char* serve(Context& context, int64_t size_bytes) {
  const size_t index = find_expected(context, size_bytes);
  if (index < context.expected.size()) {
    context.state[index] = 1;
    while (context.next < context.expected.size() && context.state[context.next] != 0)
      ++context.next;
    ++context.counters.planned;
    return context.expected[index].address;
  }
  const int64_t rounded = (size_bytes + 63) / 64 * 64;
  if (context.reserve_used + rounded <= context.reserve_bytes) {
    char* address = context.reserve + context.reserve_used;
    context.reserve_used += rounded;
    ++context.counters.unforeseen;
    context.counters.unforeseen_bytes += size_bytes;
    return address;
  }
  ++context.counters.violations;
  context.counters.violation_bytes += size_bytes;
  return nullptr;
}

void note_release(void* address, int64_t size_bytes) {
  if (adopted == nullptr) return;
  Context& context = *adopted;
  const Locked locked(context);
  if (context.is_logging) {
    context.log.push_back({.is_release = true,
                           .thread = thread_number,
                           .size_bytes = size_bytes,
                           .address = address});
  }
  if (context.loan) context.loan->give_back(static_cast<char*>(address));
  if (!context.is_active) return;
  for (size_t i = 0; i < context.expected.size(); ++i) {
    if (context.state[i] == 1 && context.expected[i].address == address) {
      context.state[i] = context.expected[i].is_reusable ? 0 : 2;
      if (context.state[i] == 0) context.next = std::min(context.next, i);
      return;
    }
  }
}

void release(void* address) {
  if (address == nullptr) return;
  if (in_arena(address)) {
    note_release(address, 0);
    return;
  }
  char* base = static_cast<char*>(address) - kHeaderBytes;
  int64_t size_bytes = 0;
  std::memcpy(&size_bytes, base, sizeof size_bytes);
  live_bytes.fetch_sub(size_bytes, std::memory_order_relaxed);
  note_release(address, size_bytes);
  ordinary->raw_deallocate(base);
}

char* take_ordinary(size_t size) {
  char* base = static_cast<char*>(ordinary->raw_allocate(size + kHeaderBytes));
  const auto size_bytes = static_cast<int64_t>(size);
  std::memcpy(base, &size_bytes, sizeof size_bytes);
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
    char* address = nullptr;
    Context& context = *adopted;
    if (context.is_active || context.loan) {
      const Locked locked(context);
      const auto size_bytes = static_cast<int64_t>(size);
      address = context.is_active ? serve(context, size_bytes) : context.loan->take(size_bytes);
    }
    if (address == nullptr) address = take_ordinary(size);
    if (context.is_logging) {
      const Locked locked(context);
      context.log.push_back({.is_release = false,
                             .thread = thread_number,
                             .size_bytes = static_cast<int64_t>(size),
                             .address = address});
    }
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

Status register_arena(const char* base, int64_t size_bytes) {
  const std::lock_guard guard(arenas_mutex);
  for (Range& range : arenas) {
    if (range.end.load() != 0) continue;
    range.begin = reinterpret_cast<uintptr_t>(base);
    range.end = reinterpret_cast<uintptr_t>(base) + static_cast<uintptr_t>(size_bytes);
    return Done{};
  }
  return Error{ErrorCode::Device, "64 arenas are open; close() compiled steps that are not used"};
}

void unregister_arena(const char* base) {
  const std::lock_guard guard(arenas_mutex);
  for (Range& range : arenas) {
    if (range.begin.load() != reinterpret_cast<uintptr_t>(base)) continue;
    range.end = 0;
    range.begin = 0;
  }
}

void adopt_worker_threads() {
  Context* context = &own_context();
  const BelowAutograd below;
  // An element for every thread. Never freed: a thread may end after what frees tensors has gone.
  thread_local auto& one_each = *new at::Tensor;
  const int64_t threads = at::get_num_threads();
  if (!one_each.defined() || one_each.numel() != threads) one_each = at::empty({threads});
  // Through PyTorch's own iterator: at::parallel_for would be compiled here, where it may be
  // serial.
  at::TensorIterator::borrowing_nullary_op(one_each).for_each(
      [context](char**, const int64_t*, int64_t, int64_t) {
        if (is_owner) return;
        adopted = context;
        thread_number = at::get_thread_num();
      },
      /*grain_size=*/1);
}

void begin_op(std::span<const Expected> expected) {
  Context& context = own_context();
  context.expected = expected;
  context.next = 0;
  context.state.assign(expected.size(), 0);
  context.reserve_used = 0;
  context.is_active = true;
}

void end_op() {
  Context& context = own_context();
  context.is_active = false;
  context.expected = {};
}

void set_reserve(char* address, int64_t size_bytes) {
  Context& context = own_context();
  context.reserve = address;
  context.reserve_bytes = size_bytes;
}

void lend(char* base, int64_t size_bytes) { own_context().loan.emplace(base, size_bytes); }

int64_t take_back() {
  Context& context = own_context();
  const int64_t used = context.loan ? context.loan->used_bytes() : 0;
  context.loan.reset();
  return used;
}

void start_log() {
  Context& context = own_context();
  context.log.clear();
  context.is_logging = true;
}

std::vector<Event> stop_log() {
  Context& context = own_context();
  context.is_logging = false;
  return std::move(context.log);
}

void reset_counted_peak() { most_bytes = live_bytes.load(); }
int64_t counted_live_bytes() { return live_bytes.load(); }
int64_t counted_peak_bytes() { return most_bytes.load(); }

AllocatorCounters& allocator_counters() { return own_context().counters; }

}  // namespace fitstep::torch_side

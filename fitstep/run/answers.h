// What a thread that runs steps answers when its kernels ask for memory, whatever device it is of.
//
// During an op requests are answered from the plan, in order; beside ops, from addresses on loan if
// there are any; all else is for ordinary memory. An allocator asks here first:
//
//   expected     64 B @ 0   128 B @ 64      request 64 B -> 0, 128 B -> 64
//   unexpected   request 96 B -> the reserve, counted; if it is full -> ordinary memory, a
//   violation; above the most that may be unforeseen -> refused
//
// Worker threads of kernels share the answers of the thread that called them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "fitstep/base/result.h"

namespace fitstep {

// One request that a kernel is expected to make, and the address that answers it.
struct Expected {
  int64_t size_bytes = 0;
  char* address = nullptr;  // Null: ordinary memory (an output that the user gets).
  bool is_any_thread = false;
  bool is_reusable = false;               // Answers again once it was released.
  bool may_be_less = false;               // Or left out: kernels may find a way with less scratch.
  std::vector<int32_t> after_release_of;  // Requests whose bytes it reuses.
};

// What was asked for, or given back.
struct MemoryEvent {
  bool is_release = false;
  int32_t thread = 0;  // 0 is the one that runs the op; its kernels' workers follow.
  int64_t size_bytes = 0;
  void* address = nullptr;
};

struct AllocatorCounters {
  int64_t planned = 0;     // Requests answered from the plan.
  int64_t unforeseen = 0;  // Served from the reserve.
  int64_t unforeseen_bytes = 0;
  int64_t violations = 0;  // Served from ordinary memory.
  int64_t violation_bytes = 0;
  int64_t refused = 0;  // Served by nobody; the kernel had to find another way.
};

struct Answer {
  char* address = nullptr;  // Null: ordinary memory has to serve it,
  bool is_refused = false;  // or nobody.
};

class Answers {
 public:
  static constexpr int64_t kNoMost = std::numeric_limits<int64_t>::max();

  // `alignment_bytes` is that of addresses in the reserve and on loan.
  explicit Answers(int64_t alignment_bytes) : alignment_bytes_(alignment_bytes) {}
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // From here to end_op(), requests are answered by `expected`, in order.
  // REQUIRES: `expected` outlives the op; no op is under way.
  void begin_op(std::span<const Expected> expected);
  void end_op();

  // The reserve that unforeseen requests of an op are served from; empty again at each begin_op().
  void set_reserve(char* address, int64_t size_bytes);

  // Larger requests that no op expects are refused from here on, wherever there is room for them,
  // unless they are of one of the `spared` sizes.
  // REQUIRES: `spared` stays as it is until the next call.
  void set_most_unforeseen(int64_t size_bytes, std::span<const int64_t> spared = {}) {
    most_unforeseen_bytes_ = size_bytes;
    spared_ = spared;
  }
  int64_t most_unforeseen_bytes() const { return most_unforeseen_bytes_; }

  // What each byte holds that is handed out from here on; none: whatever it held before.
  void set_content(std::optional<char> content) { content_ = content; }
  std::optional<char> content() const { return content_; }

  // Lends free addresses: until take_back(), requests that no op expects are served from there
  // while they fit.
  // REQUIRES: nothing uses [base, base + size) meanwhile.
  void lend(char* base, int64_t size_bytes);

  // Ends the loan; the bytes of it that are still in use, which have to be 0 for a loan well used.
  int64_t take_back();

  // Records all requests and releases until the next call.
  void start_log();
  std::vector<MemoryEvent> stop_log();
  bool is_logging() const { return is_logging_; }

  // For allocators. `note_request` gets the address that was handed out in the end.
  Answer answer(int64_t size_bytes);
  void note_request(int32_t thread, void* address, int64_t size_bytes);
  void note_release(int32_t thread, void* address, int64_t size_bytes);

  AllocatorCounters& counters() { return counters_; }

 private:
  // What is asked for is little and soon answered, so waiting threads need not sleep.
  class SpinLock {
   public:
    void lock() {
      while (flag_.test_and_set(std::memory_order_acquire)) {
      }
    }
    void unlock() { flag_.clear(std::memory_order_release); }

   private:
    std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
  };
  using Lock = std::lock_guard<SpinLock>;

  // Addresses on loan, first fit. Few requests are live at once: those of one op.
  struct Loan {
    char* begin = nullptr;
    char* end = nullptr;
    std::map<char*, int64_t> used;
  };

  bool may_serve(size_t index, int64_t size_bytes) const;
  bool may_serve_less(size_t index, int64_t size_bytes) const;
  bool waits(size_t index) const;
  bool is_too_large(int64_t size_bytes) const;
  size_t find_expected(int64_t size_bytes) const;
  Answer answer_in_op(int64_t size_bytes);
  char* take_loan(int64_t size_bytes);
  int64_t aligned(int64_t size_bytes) const;

  const int64_t alignment_bytes_;
  SpinLock lock_;
  bool is_active_ = false;
  bool is_logging_ = false;
  std::span<const Expected> expected_;
  size_t next_ = 0;
  std::vector<char> state_;  // Per expected request: 0 not yet asked, 1 served, 2 released.
  char* reserve_ = nullptr;
  int64_t reserve_bytes_ = 0;
  int64_t reserve_used_ = 0;
  int64_t most_unforeseen_bytes_ = kNoMost;
  std::span<const int64_t> spared_;
  std::optional<Loan> loan_;
  std::vector<MemoryEvent> log_;
  std::optional<char> content_;
  AllocatorCounters counters_;
};

// Which addresses are an arena's: releasing them frees nothing. Any thread may ask at any time.
class ArenaRanges {
 public:
  // Fails when more are open than there is room for (64).
  Status add(const char* base, int64_t size_bytes);
  void remove(const char* base);
  bool contains(const void* address) const;

 private:
  struct Range {
    std::atomic<uintptr_t> begin = 0;
    std::atomic<uintptr_t> end = 0;
  };
  std::array<Range, 64> ranges_;
  std::mutex mutex_;  // Of those who change them.
};

}  // namespace fitstep

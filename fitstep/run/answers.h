// Answers the memory requests of kernels while a thread runs a step, on any device.
//
// During an op the plan answers its requests, in order. Between ops lent addresses answer, if there
// are any. All other requests use ordinary memory. An allocator asks here first:
//
//   expected     64 B @ 0   128 B @ 64      request 64 B -> 0, 128 B -> 64
//   unforeseen   request 96 B -> the reserve; reserve full -> ordinary memory, a violation; larger
//                than set_most_unforeseen() -> refused
//
// Worker threads of a kernel share the answers of the thread that called the kernel.
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

// A request that a kernel will make, and its address.
struct Expected {
  int64_t size_bytes = 0;
  char* address = nullptr;  // Null: ordinary memory (an output for the user).
  bool is_any_thread = false;
  bool is_reusable = false;               // May answer again after its release.
  bool may_be_less = false;               // Or missing: a kernel may need less scratch.
  bool is_argument = false;               // The op reads these bytes: they are never filled.
  std::vector<int32_t> after_release_of;  // Requests whose bytes it reuses.
};

// A request or a release.
struct MemoryEvent {
  bool is_release = false;
  int32_t thread = 0;  // 0: the thread that runs the op; others: its worker threads.
  int64_t size_bytes = 0;
  void* address = nullptr;
};

struct AllocatorCounters {
  int64_t planned = 0;     // Requests answered from the plan.
  int64_t unforeseen = 0;  // Served from the reserve.
  int64_t unforeseen_bytes = 0;
  int64_t violations = 0;  // Served from ordinary memory.
  int64_t violation_bytes = 0;
  int64_t refused = 0;  // Not served: the kernel had to use another algorithm.
};

struct Answer {
  char* address = nullptr;   // Null: use ordinary memory,
  bool is_refused = false;   // or refuse.
  bool is_argument = false;  // The op reads these bytes.
};

class Answers {
 public:
  static constexpr int64_t kNoMost = std::numeric_limits<int64_t>::max();

  // `alignment_bytes`: of addresses in the reserve and of lent addresses.
  explicit Answers(int64_t alignment_bytes) : alignment_bytes_(alignment_bytes) {}
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // Until end_op(), `expected` answers the requests, in order.
  // REQUIRES: `expected` outlives the op; no op is under way.
  void begin_op(std::span<const Expected> expected);
  void end_op();

  // The reserve serves unforeseen requests of an op. Each begin_op() empties it.
  void set_reserve(char* address, int64_t size_bytes);

  // From here on unforeseen requests of more than `size_bytes` are refused, unless their size is
  // one of `spared`. REQUIRES: `spared` does not change until the next call.
  void set_most_unforeseen(int64_t size_bytes, std::span<const int64_t> spared = {}) {
    most_unforeseen_bytes_ = size_bytes;
    spared_ = spared;
  }
  int64_t most_unforeseen_bytes() const { return most_unforeseen_bytes_; }

  // From here on an allocator fills bytes that it hands out with `content`, unless they are an
  // argument of the op; none: leaves them as they are.
  void set_content(std::optional<char> content) { content_ = content; }
  std::optional<char> content_for(const Answer& answer) const {
    return answer.is_argument ? std::nullopt : content_;
  }

  // Lends free addresses: until take_back() they serve unforeseen requests that fit.
  // REQUIRES: nothing uses [base, base + size) meanwhile.
  void lend(char* base, int64_t size_bytes);

  // Ends the loan. Returns its bytes that are still in use; they must be 0.
  int64_t take_back();

  // Records all requests and releases until the next call.
  void start_log();
  std::vector<MemoryEvent> stop_log();
  bool is_logging() const { return is_logging_; }

  // For allocators. Pass note_request() the address that was finally used.
  Answer answer(int64_t size_bytes);
  void note_request(int32_t thread, void* address, int64_t size_bytes);
  void note_release(int32_t thread, void* address, int64_t size_bytes);

  AllocatorCounters& counters() { return counters_; }

 private:
  // Answers take little time, so waiting threads spin.
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

  // Lent addresses, first fit. Few requests are live at once.
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

// The addresses of arenas: releasing them frees nothing. Any thread may ask at any time.
class ArenaRanges {
 public:
  // Error: 64 arenas are open already.
  Status add(const char* base, int64_t size_bytes);
  void remove(const char* base);
  bool contains(const void* address) const;

 private:
  struct Range {
    std::atomic<uintptr_t> begin = 0;
    std::atomic<uintptr_t> end = 0;
  };
  std::array<Range, 64> ranges_;
  std::mutex mutex_;  // Guards changes.
};

}  // namespace fitstep

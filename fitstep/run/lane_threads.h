// Copy lanes on a CPU: one thread per lane that any plan has used. A thread sleeps unless it
// copies.
//
//   caller     begin ---- ended ---- ended ----- wait .......... drain
//                \           \                     /             /
//   evict         `.......... `[ memcpy ]---.     /             /
//   prefetch      `........................ `[ memcpy ]--------'      . asleep
//
// Each lane counts its ended actions in a number that all lanes read. A waiter writes down its
// mark, reads the number once more and sleeps. A lane that ends an action first counts it, then
// looks for waiters. So waiter or lane always sees the other, no thread wakes early, and only
// threads that sleep or wake take the mutex. If a copy fails, all lanes stop.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

#include "fitstep/base/result.h"
#include "fitstep/run/device.h"

namespace fitstep {

// Makes the copies of a lane, on the lane's thread.
class LaneWork {
 public:
  LaneWork() = default;
  LaneWork(const LaneWork&) = delete;
  LaneWork& operator=(const LaneWork&) = delete;
  virtual ~LaneWork() = default;

  virtual Status copy(Lane lane, int32_t position) = 0;
};

class LaneThreads {
 public:
  static std::shared_ptr<LaneThreads> make();

  LaneThreads(const LaneThreads&) = delete;
  LaneThreads& operator=(const LaneThreads&) = delete;

  // Starts a thread for each lane with copies. Error: the system cannot start more threads.
  Status start(const LaneCopies& copies);

  // As in CopyLanes. Both arguments must stay until drain().
  // REQUIRES: start() was called for these copies.
  Status begin(const LaneCopies& copies, LaneWork& work);
  void compute_ended();
  bool wait(Mark mark);
  void stop();
  std::optional<LaneFailure> drain();

 private:
  static constexpr Mark kNever = {.count = std::numeric_limits<int32_t>::max()};

  // State of one lane. The compute lane's sleeper is the caller.
  struct Progress {
    std::condition_variable woken;
    std::atomic<Mark> needs = kNever;  // The mark that its sleeper waits for.
    std::atomic<int32_t> ended = 0;    // Actions of this step.
    bool has_step = false;             // The thread of a copy lane has a step to run.
    pthread_t thread = {};             // Of a copy lane.
    bool is_started = false;           // The thread has started.
  };
  struct Entry {  // Argument of a new thread.
    LaneThreads* threads = nullptr;
    Lane lane = Lane::Evict;
  };
  using Lock = std::unique_lock<std::mutex>;

  LaneThreads() = default;
  ~LaneThreads();

  static void leave(LaneThreads* threads);
  static void* run_thread(void* entry);
  void serve(Lane lane);
  void run_step(Lane lane);
  void fail(const LaneFailure& failure);
  void stop_all();
  bool sleep_until(Lane sleeper, Mark mark);
  void end_action(Lane lane);
  Progress& of(Lane lane) { return progress_[static_cast<size_t>(lane)]; }

  std::mutex mutex_;
  std::array<Progress, kLaneCount> progress_;
  std::array<Entry, kLaneCount> entries_;
  const LaneCopies* copies_ = nullptr;  // Of the present step; null between steps.
  LaneWork* work_ = nullptr;            // Of the present step.
  std::optional<LaneFailure> failure_;  // The first of the step.
  int32_t busy_lanes_ = 0;              // Copy lanes that have not ended the step.
  std::atomic<bool> is_stopped_ = false;
  bool is_closing_ = false;
  pid_t process_ = 0;  // Threads do not survive a fork.
};

}  // namespace fitstep

// Copy lanes on a CPU: a thread for each that any plan has used, asleep unless they copy.
//
//   caller     begin ---- ended ---- ended ----- wait .......... drain
//                \           \                     /             /
//   evict         `.......... `[ memcpy ]---.     /             /
//   prefetch      `........................ `[ memcpy ]--------'      . asleep
//
// How far each lane is, is a number that all lanes may read. Who finds it too small writes down for
// which mark he waits, looks once more and sleeps; who ends an action looks for such notes after he
// has counted it. So one of the two sees the other, nobody is woken before what he waits for has
// happened, and the mutex is for those who sleep and wake alone. Where a copy fails, all lanes
// stop.
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

// What a copy of a lane is. Called on that lane's thread.
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

  // Sees to it that each lane with copies has a thread; an error where the system has no more.
  Status start(const LaneCopies& copies);

  // As CopyLanes says. Both must stay until drain().
  // REQUIRES: start() was called for these copies.
  Status begin(const LaneCopies& copies, LaneWork& work);
  void compute_ended();
  bool wait(Mark mark);
  void stop();
  std::optional<LaneFailure> drain();

 private:
  static constexpr Mark kNever = {.count = std::numeric_limits<int32_t>::max()};

  // What belongs to one lane; the compute lane's sleeper is the caller.
  struct Progress {
    std::condition_variable woken;
    std::atomic<Mark> needs = kNever;  // What its sleeper waits for.
    std::atomic<int32_t> ended = 0;    // Actions of this step.
    bool has_step = false;             // A copy lane's thread has a step to run.
    pthread_t thread = {};             // Of a copy lane.
    bool is_started = false;           // Whether that thread is there.
  };
  struct Entry {  // What a new thread is told.
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
  const LaneCopies* copies_ = nullptr;  // Of the step that runs; null between steps.
  LaneWork* work_ = nullptr;            // The same.
  std::optional<LaneFailure> failure_;  // The step's first.
  int32_t busy_lanes_ = 0;              // Copy lanes that have not ended the step.
  std::atomic<bool> is_stopped_ = false;
  bool is_closing_ = false;
  pid_t process_ = 0;  // Threads do not survive a fork.
};

}  // namespace fitstep

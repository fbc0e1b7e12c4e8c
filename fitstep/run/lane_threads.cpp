#include "fitstep/run/lane_threads.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"

namespace fitstep {

std::shared_ptr<LaneThreads> LaneThreads::make() {
  std::shared_ptr<LaneThreads> made(new LaneThreads(), &leave);
  made->process_ = getpid();
  return made;
}

Status LaneThreads::start(const LaneCopies& copies) {
  if (getpid() != process_) return Done{};  // begin() returns the error.
  const Lock lock(mutex_);
  for (const Lane lane : kCopyLanes) {
    if (copies.of(lane).empty() || of(lane).is_started) continue;
    Entry& entry = entries_[static_cast<size_t>(lane)];
    entry = Entry{.threads = this, .lane = lane};
    const int failure = pthread_create(&of(lane).thread, nullptr, &run_thread, &entry);
    if (failure != 0) {
      return Error{ErrorCode::Device,
                   fmt::format("cannot start a thread for copies between tiers ({}); raise the "
                               "limit of threads (ulimit -u), or give no host or disk tier",
                               std::strerror(failure))};
    }
    of(lane).is_started = true;
  }
  return Done{};
}

// A forked child has no threads to join. It must not destroy their condition variables: that would
// wait for the threads.
void LaneThreads::leave(LaneThreads* threads) {
  if (getpid() == threads->process_) delete threads;
}

LaneThreads::~LaneThreads() {
  {
    const Lock lock(mutex_);
    FITSTEP_CHECK(copies_ == nullptr, "lanes are closed while a step runs");
    is_closing_ = true;
    for (Progress& progress : progress_) progress.woken.notify_all();
  }
  for (const Progress& progress : progress_) {
    if (progress.is_started) pthread_join(progress.thread, nullptr);
  }
}

void* LaneThreads::run_thread(void* entry) {
  const auto* told = static_cast<const Entry*>(entry);
  told->threads->serve(told->lane);
  return nullptr;
}

void LaneThreads::serve(Lane lane) {
  Progress& mine = of(lane);
  Lock lock(mutex_);
  while (true) {
    mine.woken.wait(lock, [&] { return mine.has_step || is_closing_; });
    if (is_closing_) return;
    mine.has_step = false;
    lock.unlock();
    run_step(lane);
    lock.lock();
    --busy_lanes_;
    if (busy_lanes_ == 0) of(Lane::Compute).woken.notify_one();
  }
}

void LaneThreads::run_step(Lane lane) {
  int32_t position = 0;
  for (const LaneCopy& copy : copies_->of(lane)) {
    for (const Mark mark : copy.waits) {
      if (!sleep_until(lane, mark)) return;
    }
    if (is_stopped_) return;
    const Status copied = copy.size_bytes > 0 ? work_->copy(lane, position) : Status(Done{});
    if (!copied.has_value()) {
      fail(LaneFailure{.lane = lane, .position = position, .error = copied.error()});
      return;
    }
    end_action(lane);
    ++position;
  }
}

void LaneThreads::fail(const LaneFailure& failure) {
  const Lock lock(mutex_);
  if (!failure_.has_value()) failure_ = failure;
  stop_all();
}

bool LaneThreads::sleep_until(Lane sleeper, Mark mark) {
  const Progress& other = of(mark.lane);
  if (other.ended < mark.count) {
    Progress& mine = of(sleeper);
    Lock lock(mutex_);
    mine.needs = mark;
    mine.woken.wait(lock, [&] { return is_stopped_ || other.ended >= mark.count; });
    mine.needs = kNever;
  }
  return !is_stopped_;
}

void LaneThreads::end_action(Lane lane) {
  const int32_t ended = ++of(lane).ended;
  for (Progress& other : progress_) {
    const Mark needs = other.needs;
    if (needs.lane != lane || needs.count > ended) continue;
    const Lock lock(mutex_);  // The waiter sleeps or is about to.
    other.woken.notify_one();
  }
}

Status LaneThreads::begin(const LaneCopies& copies, LaneWork& work) {
  if (getpid() != process_) {
    return Error{ErrorCode::Device,
                 "threads that copy between tiers do not survive a fork; compile the step in the "
                 "process that runs it"};
  }
  const Lock lock(mutex_);
  if (copies_ != nullptr) {
    return Error{ErrorCode::Device, "another step is running on this device; run one at a time"};
  }
  copies_ = &copies;
  work_ = &work;
  failure_.reset();
  is_stopped_ = false;
  busy_lanes_ = 0;
  for (Progress& progress : progress_) progress.ended = 0;
  for (const Lane lane : kCopyLanes) {
    if (copies.of(lane).empty()) continue;
    ++busy_lanes_;
    of(lane).has_step = true;
    of(lane).woken.notify_one();
  }
  return Done{};
}

void LaneThreads::compute_ended() { end_action(Lane::Compute); }

bool LaneThreads::wait(Mark mark) { return sleep_until(Lane::Compute, mark); }

void LaneThreads::stop() {
  const Lock lock(mutex_);
  stop_all();
}

void LaneThreads::stop_all() {
  is_stopped_ = true;
  for (Progress& progress : progress_) progress.woken.notify_one();
}

std::optional<LaneFailure> LaneThreads::drain() {
  Lock lock(mutex_);
  of(Lane::Compute).woken.wait(lock, [&] { return busy_lanes_ == 0; });
  copies_ = nullptr;
  work_ = nullptr;
  return failure_;
}

}  // namespace fitstep

#include "fitstep_cuda/cuda_lanes.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"
#include "fitstep/run/file_copies.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/cuda_device.h"

namespace fitstep::cuda {
Result<std::unique_ptr<CopyLanes>> CudaLanes::make(std::shared_ptr<CudaDevice> device,
                                                   LaneCopies copies) {
  std::unique_ptr<CudaLanes> made(new CudaLanes(std::move(device), std::move(copies)));
  FITSTEP_TRY_STATUS(made->prepare());
  return std::unique_ptr<CopyLanes>(std::move(made));
}

CudaLanes::CudaLanes(std::shared_ptr<CudaDevice> device, LaneCopies copies)
    : device_(std::move(device)), copies_(std::move(copies)), over_link_(*device_, copies_) {
  disk_[0].lane = Lane::DiskWrite;
  disk_[1].lane = Lane::DiskRead;
}

CudaLanes::~CudaLanes() {
  {
    const Lock lock(mutex_);
    is_closing_ = true;
    changed_.notify_all();
  }
  Calls& calls = device_->calls();
  for (const DiskLane& disk : disk_) {
    if (disk.is_started) pthread_join(disk.thread, nullptr);
    if (disk.staged != nullptr) calls.destroy(disk.staged);
    if (disk.staging != nullptr) calls.free_pinned(disk.staging);
  }
  for (const std::vector<Event>& lane : events_) {
    for (const Event event : lane) {
      if (event != nullptr) calls.destroy(event);
    }
  }
  if (start_ != nullptr) calls.destroy(start_);
}

Status CudaLanes::prepare() {
  FITSTEP_TRY_STATUS(make_events());
  FITSTEP_TRY_STATUS(over_link_.prepare());
  if (!copies_of(Lane::DiskWrite).empty()) {
    to_file_ =
        std::make_unique<FileCopies>(copies_, device_->disk(), device_->options().staging_bytes);
  }
  for (DiskLane& disk : disk_) {
    if (!copies_of(disk.lane).empty()) FITSTEP_TRY_STATUS(start_thread(disk));
  }
  return Done{};
}

Status CudaLanes::make_events() {
  Calls& calls = device_->calls();
  FITSTEP_TRY(start_, calls.make_event());
  for (const Lane lane : kCopyLanes) {
    for (const LaneCopy& copy : copies_of(lane)) {
      if (lane != Lane::DiskWrite) {
        FITSTEP_TRY(events_[static_cast<size_t>(lane)].emplace_back(), calls.make_event());
      }
      for (const Mark& mark : copy.waits) FITSTEP_TRY_STATUS(make_op_event(mark));
    }
  }
  return Done{};
}

Status CudaLanes::make_op_event(Mark mark) {
  if (mark.lane != Lane::Compute || mark.count == 0) return Done{};
  std::vector<Event>& ends = events_[static_cast<size_t>(Lane::Compute)];
  const auto position = static_cast<size_t>(mark.count) - 1;
  if (ends.size() <= position) ends.resize(position + 1, nullptr);
  if (ends[position] != nullptr) return Done{};
  FITSTEP_TRY(ends[position], device_->calls().make_event());
  return Done{};
}

Status CudaLanes::start_thread(DiskLane& disk) {
  FITSTEP_TRY(disk.staging, device_->calls().allocate_pinned(device_->options().staging_bytes));
  FITSTEP_TRY(disk.staged, device_->calls().make_event());
  disk.lanes = this;
  const int failure = pthread_create(&disk.thread, nullptr, &run_thread, &disk);
  if (failure != 0) {
    return Error{
        ErrorCode::Device,
        fmt::format("cannot start a thread for a disk lane ({}); raise the limit of threads "
                    "(ulimit -u), or give no disk tier",
                    std::strerror(failure))};
  }
  disk.is_started = true;
  return Done{};
}

Event CudaLanes::event_of(Mark mark) const {
  const std::vector<Event>& events = events_.at(static_cast<size_t>(mark.lane));
  const auto position = static_cast<size_t>(mark.count) - 1;
  return mark.count == 0 || position >= events.size() ? nullptr : events[position];
}

Status CudaLanes::begin() {
  if (!device_->begin_step()) return Error{ErrorCode::Device, "another step is running"};
  const bool has_disk = disk_[0].is_started || disk_[1].is_started;
  FITSTEP_CHECK(!device_->is_recording() || !has_disk, "copies to the disk need the host");
  const Lock lock(mutex_);
  if (Status started = start_streams(); !started) {
    device_->end_step();
    return started;
  }
  queued_ = {};
  failure_.reset();
  is_stopped_ = false;
  for (DiskLane& disk : disk_) disk.has_step = disk.is_started;
  queue_copies();
  changed_.notify_all();
  return Done{};
}

// Copies that wait for no op of this step still wait for all ops of the step before.
Status CudaLanes::start_streams() {
  Calls& calls = device_->calls();
  FITSTEP_TRY_STATUS(calls.record(start_, device_->stream(Lane::Compute)));
  for (const Lane lane : kCopyLanes) {
    if (!copies_of(lane).empty()) {
      FITSTEP_TRY_STATUS(calls.wait(device_->stream(lane), start_));
    }
  }
  return Done{};
}

void CudaLanes::compute_ended() {
  const Lock lock(mutex_);
  const int32_t count = ++queued_of(Lane::Compute);
  if (is_stopped_) return;
  if (const Event ended = event_of({.lane = Lane::Compute, .count = count}); ended != nullptr) {
    const Status status = device_->calls().record(ended, device_->stream(Lane::Compute));
    // No copy has failed, but copies that wait for this op cannot be queued.
    if (!status) fail(Lane::Evict, queued_of(Lane::Evict), status.error());
  }
  queue_copies();
  changed_.notify_all();
}

bool CudaLanes::wait(Mark mark) {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return is_stopped_ || is_queued(mark); });
  if (is_stopped_) return false;
  const Event ended = event_of(mark);
  if (ended == nullptr) return true;
  const Status status = device_->calls().wait(device_->stream(Lane::Compute), ended);
  if (!status) fail(mark.lane, mark.count - 1, status.error());
  return status.has_value();
}

void CudaLanes::stop() {
  const Lock lock(mutex_);
  is_stopped_ = true;
  changed_.notify_all();
}

std::optional<LaneFailure> CudaLanes::drain() {
  Lock lock(mutex_);
  changed_.wait(lock, [&] {
    const bool are_idle = std::ranges::none_of(disk_, &DiskLane::has_step);
    return are_idle && (is_stopped_ || is_at_end());
  });
  for (const Lane lane : kCopyLanes) {
    if (copies_of(lane).empty()) continue;
    const Status status = device_->is_recording() ? join(lane) : finish(lane);
    if (!status) fail(lane, std::max(queued_of(lane) - 1, 0), status.error());
  }
  if (failure_.has_value() || is_stopped_) {
    over_link_.forget_step();
  } else {
    over_link_.end_step();
  }
  device_->end_step();
  if (to_file_ != nullptr) to_file_->samples().end();
  return failure_;
}

Status CudaLanes::finish(Lane lane) { return device_->calls().synchronize(device_->stream(lane)); }

// In a graph the compute stream must wait for the streams of all lanes.
Status CudaLanes::join(Lane lane) {
  if (is_stopped_) return Done{};
  const auto count = static_cast<int32_t>(copies_of(lane).size());
  const Event ended = event_of({.lane = lane, .count = count});
  return device_->calls().wait(device_->stream(Lane::Compute), ended);
}

bool CudaLanes::are_queued(const std::vector<Mark>& marks) const {
  return std::ranges::all_of(marks, [&](const Mark& mark) { return is_queued(mark); });
}

bool CudaLanes::is_at_end() const {
  return std::ranges::all_of(kCopyLanes, [&](Lane lane) {
    return std::cmp_equal(queued_of(lane), copies_of(lane).size());
  });
}

void CudaLanes::queue_copies() {
  bool has_queued = true;
  while (has_queued) {
    has_queued = false;
    for (const Lane lane : {Lane::Evict, Lane::Prefetch}) {
      while (queue_next(lane)) has_queued = true;
    }
  }
}

bool CudaLanes::queue_next(Lane lane) {
  const int32_t position = queued_of(lane);
  if (is_stopped_ || std::cmp_equal(position, copies_of(lane).size())) return false;
  if (!are_queued(copies_of(lane)[static_cast<size_t>(position)].waits)) return false;
  if (const Status status = queue_copy(lane, position); !status) {
    fail(lane, position, status.error());
    return false;
  }
  ++queued_of(lane);
  return true;
}

Status CudaLanes::queue_waits(Lane lane, const std::vector<Mark>& waits) {
  for (const Mark& mark : waits) {
    const Event event = mark.lane == lane ? nullptr : event_of(mark);
    if (event != nullptr) {
      FITSTEP_TRY_STATUS(device_->calls().wait(device_->stream(lane), event));
    }
  }
  return Done{};
}

Status CudaLanes::queue_copy(Lane lane, int32_t position) {
  const LaneCopy& copy = copies_of(lane)[static_cast<size_t>(position)];
  const Stream stream = device_->stream(lane);
  FITSTEP_TRY_STATUS(queue_waits(lane, copy.waits));
  FITSTEP_TRY_STATUS(lane == Lane::Evict ? over_link_.evict(position)
                                         : over_link_.prefetch(position));
  return device_->calls().record(event_of({.lane = lane, .count = position + 1}), stream);
}

void CudaLanes::fail(Lane lane, int32_t position, const Error& error) {
  if (!failure_.has_value()) {
    failure_ = LaneFailure{.lane = lane, .position = position, .error = error};
  }
  is_stopped_ = true;
  changed_.notify_all();
}

void* CudaLanes::run_thread(void* disk) {
  auto* it = static_cast<DiskLane*>(disk);
  it->lanes->serve(*it);
  return nullptr;
}

void CudaLanes::serve(DiskLane& disk) {
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_closing_ || disk.has_step; });
    if (is_closing_) return;
    run_step(lock, disk);
    disk.has_step = false;
    changed_.notify_all();
  }
}

void CudaLanes::run_step(Lock& lock, DiskLane& disk) {
  const std::vector<LaneCopy>& copies = copies_of(disk.lane);
  for (int32_t position = 0; std::cmp_less(position, copies.size()); ++position) {
    const LaneCopy& copy = copies[static_cast<size_t>(position)];
    changed_.wait(lock, [&] { return is_stopped_ || are_queued(copy.waits); });
    if (is_stopped_) return;
    Status status = queue_waits(disk.lane, copy.waits);
    lock.unlock();
    if (status) {
      status =
          disk.lane == Lane::DiskWrite ? write_file(disk, position) : read_file(disk, position);
    }
    lock.lock();
    if (!status) return fail(disk.lane, position, status.error());
    ++queued_of(disk.lane);
    queue_copies();
    changed_.notify_all();
  }
}

Status CudaLanes::write_file(DiskLane& disk, int32_t position) {
  const LaneCopy& copy = copies_of(disk.lane)[static_cast<size_t>(position)];
  const Stream stream = device_->stream(disk.lane);
  Calls& calls = device_->calls();
  for (int64_t begin = 0; begin < copy.size_bytes;) {
    const int64_t size_bytes = std::min(device_->options().staging_bytes, copy.size_bytes - begin);
    FITSTEP_TRY_STATUS(calls.copy(disk.staging, copy.source + begin, size_bytes, stream));
    FITSTEP_TRY_STATUS(calls.record(disk.staged, stream));
    FITSTEP_TRY_STATUS(calls.synchronize(disk.staged));
    FITSTEP_TRY_STATUS(
        to_file_->write(position, begin, {disk.staging, static_cast<size_t>(size_bytes)}));
    begin += size_bytes;
  }
  return Done{};
}

Status CudaLanes::read_file(DiskLane& disk, int32_t position) {
  const LaneCopy& copy = copies_of(disk.lane)[static_cast<size_t>(position)];
  const Stream stream = device_->stream(disk.lane);
  Calls& calls = device_->calls();
  for (int64_t begin = 0; begin < copy.size_bytes;) {
    const int64_t size_bytes = std::min(device_->options().staging_bytes, copy.size_bytes - begin);
    // The earlier piece has left the staging block.
    FITSTEP_TRY_STATUS(calls.synchronize(disk.staged));
    FITSTEP_TRY_STATUS(
        to_file_->read(position, begin, {disk.staging, static_cast<size_t>(size_bytes)}));
    FITSTEP_TRY_STATUS(calls.copy(copy.target + begin, disk.staging, size_bytes, stream));
    FITSTEP_TRY_STATUS(calls.record(disk.staged, stream));
    begin += size_bytes;
  }
  return calls.record(event_of({.lane = disk.lane, .count = position + 1}), stream);
}

}  // namespace fitstep::cuda

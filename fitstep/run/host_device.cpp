#include "fitstep/run/host_device.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/codecs.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/file_copies.h"
#include "fitstep/run/file_memory.h"
#include "fitstep/run/host_copies.h"
#include "fitstep/run/lane_threads.h"
#include "fitstep/run/tiered_device.h"

namespace fitstep {
namespace {

// Whether all copies to and from the host tier begin at blocks of the file.
bool are_in_file(const LaneCopies& copies, const FileMemory& homes) {
  return std::ranges::all_of(
             copies.of(Lane::Evict),
             [&](const LaneCopy& it) { return homes.holds(it.target, it.size_bytes); }) &&
         std::ranges::all_of(copies.of(Lane::Prefetch), [&](const LaneCopy& it) {
           return homes.holds(it.source, it.size_bytes);
         });
}

// Makes the copies of one plan on the device's threads. A memcpy cannot fail; the drive can.
class HostLanes final : public CopyLanes, private LaneWork {
 public:
  HostLanes(LaneCopies copies, std::shared_ptr<LaneThreads> threads, std::shared_ptr<DiskFile> disk,
            std::shared_ptr<FileMemory> homes, std::shared_ptr<HostTraffic> traffic,
            const CoderMaker& make_coder)
      : copies_(std::move(copies)),
        threads_(std::move(threads)),
        to_host_(copies_, make_coder),
        homes_(std::move(homes)),
        traffic_(std::move(traffic)) {
    if (disk != nullptr) to_file_.emplace(copies_, std::move(disk));
  }

  Status begin() override { return threads_->begin(copies_, *this); }
  void compute_ended() override { threads_->compute_ended(); }
  bool wait(Mark mark) override { return threads_->wait(mark); }
  void stop() override { threads_->stop(); }
  std::optional<LaneFailure> drain() override {
    std::optional<LaneFailure> failure = threads_->drain();
    if (to_file_) to_file_->samples().end();
    to_host_.samples().end();
    return failure;
  }
  void sample_codes() override {
    if (to_file_) to_file_->samples().begin();
    if (homes_ == nullptr) to_host_.samples().begin();
  }
  std::vector<CopySize> copy_sizes(Lane lane) const override {
    if (lane == Lane::Evict) return to_host_.sizes();
    return lane == Lane::DiskWrite && to_file_ ? to_file_->sizes() : std::vector<CopySize>();
  }

 private:
  Status copy(Lane lane, int32_t position) override {
    const LaneCopy& it = copies_.of(lane)[static_cast<size_t>(position)];
    if (is_disk_lane(lane)) {
      if (!to_file_) return Error{ErrorCode::Device, "a copy to the disk has no file"};
      return lane == Lane::DiskWrite
                 ? to_file_->write(position, 0, {it.source, static_cast<size_t>(it.size_bytes)})
                 : to_file_->read(position, 0, {it.target, static_cast<size_t>(it.size_bytes)});
    }
    int64_t moved_bytes = it.size_bytes;
    if (homes_ != nullptr) {
      FITSTEP_TRY_STATUS(lane == Lane::Evict ? homes_->write(it.target, it.source, it.size_bytes)
                                             : homes_->read(it.target, it.source, it.size_bytes));
    } else if (lane == Lane::Evict) {
      moved_bytes = to_host_.write(position);
    } else {
      FITSTEP_TRY(moved_bytes, to_host_.read(position));
    }
    traffic_->add(lane, moved_bytes);
    return Done{};
  }

  LaneCopies copies_;
  std::shared_ptr<LaneThreads> threads_;
  HostCopies to_host_;
  std::optional<FileCopies> to_file_;  // None: no copies to the file.
  std::shared_ptr<FileMemory> homes_;  // The host tier, if it is a file.
  std::shared_ptr<HostTraffic> traffic_;
};

}  // namespace

HostDevice::HostDevice(std::optional<DiskFileOptions> disk, CoderMaker make_coder)
    : TieredDevice(std::move(disk)), make_coder_(std::move(make_coder)), process_(getpid()) {}

Result<char*> HostDevice::reserve(TierId /*tier*/, int64_t size_bytes) {  // All are RAM.
  void* base = mmap(nullptr, static_cast<size_t>(size_bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return Error{ErrorCode::Device,
                 fmt::format("cannot reserve {} bytes of memory ({}); lower the budget or free "
                             "memory",
                             size_bytes, std::strerror(errno))};
  }
  // Only a hint: without huge pages the step is slower, not wrong.
  madvise(base, static_cast<size_t>(size_bytes), MADV_HUGEPAGE);
  set_in_forks(static_cast<char*>(base), size_bytes, false);
  return static_cast<char*>(base);
}

void HostDevice::set_in_forks(char* begin, int64_t size_bytes, bool is_in_forks) {
  madvise(begin, static_cast<size_t>(size_bytes), is_in_forks ? MADV_DOFORK : MADV_DONTFORK);
}

// In a forked child these addresses are other memory.
void HostDevice::release(char* base, int64_t size_bytes) {
  if (getpid() == process_) munmap(base, static_cast<size_t>(size_bytes));
}

void HostDevice::discard(char* begin, int64_t size_bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const auto into_page =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % static_cast<uintptr_t>(page));
  const int64_t head_bytes = (page - into_page) % page;  // Before the first whole page.
  const int64_t whole_bytes = (size_bytes - head_bytes) / page * page;
  if (whole_bytes > 0) madvise(begin + head_bytes, static_cast<size_t>(whole_bytes), MADV_DONTNEED);
}

Result<std::unique_ptr<CopyLanes>> HostDevice::open_lanes(LaneCopies copies) {
  if (threads_ == nullptr) threads_ = LaneThreads::make();
  FITSTEP_TRY_STATUS(threads_->start(copies));
  if (homes() != nullptr && !are_in_file(copies, *homes())) {
    return Error{
        ErrorCode::Mismatch,
        "the plan copies to the host tier, which is a file of homes; copies must begin at a "
        "block of the file; compile the step again"};
  }
  const bool has_disk = !copies.of(Lane::DiskWrite).empty();
  if (has_disk) FITSTEP_TRY_STATUS(reserve_disk(file_bytes(copies)));
  return std::unique_ptr<CopyLanes>(new HostLanes(std::move(copies), threads_,
                                                  has_disk ? disk() : nullptr, homes(),
                                                  shared_traffic(), make_coder_));
}

}  // namespace fitstep

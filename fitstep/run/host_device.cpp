#include "fitstep/run/host_device.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "fitstep/base/result.h"
#include "fitstep/run/device.h"
#include "fitstep/run/lane_threads.h"

namespace fitstep {
namespace {

// The copies of one plan on the device's threads. A memcpy cannot fail.
class HostLanes final : public CopyLanes {
 public:
  HostLanes(LaneCopies copies, std::shared_ptr<LaneThreads> threads)
      : copies_(std::move(copies)), threads_(std::move(threads)) {}

  Status begin() override { return threads_->begin(copies_); }
  void compute_ended() override { threads_->compute_ended(); }
  bool wait(Mark mark) override { return threads_->wait(mark); }
  void stop() override { threads_->stop(); }
  std::optional<LaneFailure> drain() override {
    threads_->drain();
    return std::nullopt;
  }

 private:
  LaneCopies copies_;
  std::shared_ptr<LaneThreads> threads_;
};

}  // namespace

Result<char*> HostDevice::reserve(int64_t size_bytes) {
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

void HostDevice::release(char* base, int64_t size_bytes) {
  munmap(base, static_cast<size_t>(size_bytes));
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
  if (threads_ == nullptr) {
    FITSTEP_TRY(threads_, LaneThreads::start());
  }
  return std::unique_ptr<CopyLanes>(new HostLanes(std::move(copies), threads_));
}

}  // namespace fitstep

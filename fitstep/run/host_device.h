// The CPU as a device: arenas in RAM, on huge pages where the system has them, a file if it is
// given a folder for one, and threads that copy between them. The host tier of a CPU is such an
// arena beside the device tier's, the disk tier is the file. Homes that are on the disk lie in
// memory that is another file; for plans that is the host tier, and copies to it go to that file.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fitstep/base/result.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/file_memory.h"
#include "fitstep/run/lane_threads.h"

namespace fitstep {

// Bytes that the lanes to the host tier and back have copied, in all steps.
struct HostTraffic {
  std::atomic<int64_t> evicted_bytes = 0;
  std::atomic<int64_t> prefetched_bytes = 0;
};

class HostDevice final : public Device {
 public:
  // Copies to a file need the options of one.
  explicit HostDevice(std::optional<DiskFileOptions> disk = std::nullopt);

  std::string name() const override { return "cpu"; }

  // A private mapping: a forked child that writes to it gets its own copy, never the parent's.
  Result<char*> reserve(TierId tier, int64_t size_bytes) override;
  void release(char* base, int64_t size_bytes) override;
  void discard(char* begin, int64_t size_bytes) override;
  void set_in_forks(char* begin, int64_t size_bytes, bool is_in_forks) override;

  // The first call for a lane starts its thread, which all lanes of the device share; the first one
  // with copies to the file makes that.
  Result<std::unique_ptr<CopyLanes>> open_lanes(LaneCopies copies) override;

  // What copies to and from it is copied through its file from now on.
  void set_homes(std::shared_ptr<FileMemory> homes) { homes_ = std::move(homes); }

  // Sees to it that the file has room for `size_bytes`; makes it if need be.
  Status reserve_disk(int64_t size_bytes);

  const HostTraffic& traffic() const { return *traffic_; }

  // Null before it is needed.
  const std::shared_ptr<DiskFile>& disk() const { return disk_; }

  // Lets go of the file; it is gone when the last lanes are that copy there.
  void close_disk() { disk_.reset(); }

 private:
  std::optional<DiskFileOptions> disk_options_;
  std::shared_ptr<DiskFile> disk_;
  std::shared_ptr<FileMemory> homes_;  // Null where none are in a file.
  std::shared_ptr<LaneThreads> threads_;
  std::shared_ptr<HostTraffic> traffic_ = std::make_shared<HostTraffic>();  // Lanes count in it.
};

}  // namespace fitstep

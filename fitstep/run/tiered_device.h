// A device with lower tiers: it counts bytes copied to the host, and has a file if it was given a
// folder. Homes on the disk lie in memory backed by another file (file_memory.h). For plans that
// memory is the host tier, and copies to it go to its file.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "fitstep/base/result.h"
#include "fitstep/run/device.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/file_memory.h"

namespace fitstep {

// Bytes copied to and from the host tier, in all steps.
struct HostTraffic {
  std::atomic<int64_t> evicted_bytes = 0;
  std::atomic<int64_t> prefetched_bytes = 0;

  void add(Lane lane, int64_t size_bytes) {
    (lane == Lane::Evict ? evicted_bytes : prefetched_bytes) += size_bytes;
  }
};

// A recorded step, which can be replayed in one call.
class Recorded {
 public:
  Recorded() = default;
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  virtual ~Recorded() = default;

  // Queues the recorded step after all earlier work of the device.
  virtual Status replay() = 0;
};

class TieredDevice : public Device {
 public:
  // Until end_recording() the device records the work of a step and does not run it. Only devices
  // with queues can, for steps whose copies do not need the host. After an error of either call the
  // device no longer records, and has run nothing.
  //
  // REQUIRES: lanes and memory of the step outlive the recording; one thread.
  virtual Status begin_recording();
  virtual Result<std::unique_ptr<Recorded>> end_recording();

  // Why the reserved host memory is not page-locked; empty if it is, or if locking does not matter.
  // Copies to pageable memory are slower, and it cannot hold homes.
  virtual std::string why_pageable() const { return ""; }

  // Makes the file if needed, and room in it for `size_bytes`. Errors: no folder, no room.
  Status reserve_disk(int64_t size_bytes);

  // Null before the first reserve_disk().
  std::shared_ptr<DiskFile> disk() const;

  // Gives up the file. It is deleted with the last lanes that use it.
  void close_disk();

  // In a forked child: closes the file, even if lanes still use it.
  void forsake_disk();

  // From now on copies to and from this memory go through its file; null: no memory.
  void set_homes(std::shared_ptr<FileMemory> homes) { homes_ = std::move(homes); }

  const HostTraffic& traffic() const { return *traffic_; }

 protected:
  explicit TieredDevice(std::optional<DiskFileOptions> disk) : disk_options_(std::move(disk)) {}

  const std::shared_ptr<FileMemory>& homes() const { return homes_; }
  // Lanes add to it, and may outlive the device.
  const std::shared_ptr<HostTraffic>& shared_traffic() const { return traffic_; }

 private:
  std::optional<DiskFileOptions> disk_options_;
  mutable std::mutex mutex_;  // Guards disk_.
  std::shared_ptr<DiskFile> disk_;
  std::shared_ptr<FileMemory> homes_;  // Null: no homes in a file.
  std::shared_ptr<HostTraffic> traffic_ = std::make_shared<HostTraffic>();
};

}  // namespace fitstep

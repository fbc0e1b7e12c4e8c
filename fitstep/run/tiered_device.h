// A device with the tiers below it: what it has copied to the host so far, and a file if it was
// given a folder for one. Homes that are on the disk lie in memory that is another file; for plans
// that is the host tier, and copies to it go to that file.
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

// Bytes that the lanes to the host tier and back have copied, in all steps.
struct HostTraffic {
  std::atomic<int64_t> evicted_bytes = 0;
  std::atomic<int64_t> prefetched_bytes = 0;

  void add(Lane lane, int64_t size_bytes) {
    (lane == Lane::Evict ? evicted_bytes : prefetched_bytes) += size_bytes;
  }
};

// What a step has given the device, to be given again in one go.
class Recorded {
 public:
  Recorded() = default;
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  virtual ~Recorded() = default;

  // Puts all of it behind what the device was given before.
  virtual Status replay() = 0;
};

class TieredDevice : public Device {
 public:
  // From here to end_recording() what a step gives the device is recorded and not done. Offered by
  // devices that run behind the host, for steps whose copies do not need the host. After an error
  // of either nothing is recorded any more, and nothing has been done.
  //
  // REQUIRES: lanes and memory that the step uses outlive what is recorded; one thread.
  virtual Status begin_recording();
  virtual Result<std::unique_ptr<Recorded>> end_recording();

  // Why memory of the host tier that it has reserved is not page-locked; empty where it is, or
  // where that makes no difference. Copies there are slower, and it can have no homes.
  virtual std::string why_pageable() const { return ""; }

  // Sees to it that the file has room for `size_bytes`; makes it if need be. An error where there
  // is no folder, or none.
  Status reserve_disk(int64_t size_bytes);

  // Null before it is needed.
  std::shared_ptr<DiskFile> disk() const;

  // Lets go of the file; it is gone when the last lanes are that copy there.
  void close_disk();

  // In a process that was forked: closes the file, whoever may still copy there.
  void forsake_disk();

  // What copies to and from it is copied through its file from now on; null for no more.
  void set_homes(std::shared_ptr<FileMemory> homes) { homes_ = std::move(homes); }

  const HostTraffic& traffic() const { return *traffic_; }

 protected:
  explicit TieredDevice(std::optional<DiskFileOptions> disk) : disk_options_(std::move(disk)) {}

  const std::shared_ptr<FileMemory>& homes() const { return homes_; }
  // Lanes count in it, and outlive the device.
  const std::shared_ptr<HostTraffic>& shared_traffic() const { return traffic_; }

 private:
  std::optional<DiskFileOptions> disk_options_;
  mutable std::mutex mutex_;  // Guards disk_.
  std::shared_ptr<DiskFile> disk_;
  std::shared_ptr<FileMemory> homes_;  // Null where none are in a file.
  std::shared_ptr<HostTraffic> traffic_ = std::make_shared<HostTraffic>();
};

}  // namespace fitstep

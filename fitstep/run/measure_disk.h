// What a copy between a tier in RAM and files of a folder costs, measured here and now.
//
//   write, read   a file of large blocks, past the system's cache where the folder allows it, and
//                 forced to the drive and out of the cache where it does not
//   both          reading one file while another is written
//   latency       the smallest block
//
// Each number is the median of a few rounds; all together take a few seconds on a drive of 1 GB/s.
#pragma once

#include <cstdint>
#include <string>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {

struct DiskOptions {
  std::string folder;
  int64_t file_bytes = int64_t{1} << 28;  // Of each of two files; gone afterwards.
  int64_t block_bytes = int64_t{1} << 22;
  int32_t rounds = 3;
};

struct DiskMeasure {
  Rate evict;  // To the drive.
  Rate prefetch;
  int64_t free_bytes = 0;  // Of the folder's file system, before.
  bool is_direct = false;  // Past the system's cache.
};

// An error where the folder cannot be written to, has no room, or an option is not positive.
Result<DiskMeasure> measure_disk(const DiskOptions& options);

}  // namespace fitstep

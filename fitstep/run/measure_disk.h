// What a copy between a tier in RAM and the disk tier's file (disk_file.h) costs, measured here and
// now, with all that belongs to it: staging, checksums, the drive.
//
//   write, read   half a file in large blocks, beside compute work as ops do it on `threads`
//   threads both          reading one half while the other is written latency       the smallest
//   block slowdown      that work beside writing or reading / without it
//
// Each number is the median of a few rounds; all together take a few seconds on a drive of 1 GB/s.
#pragma once

#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/run/disk_file.h"

namespace fitstep {

struct DiskOptions {
  DiskFileOptions file;
  int64_t file_bytes = int64_t{1} << 28;  // Of each half.
  int64_t block_bytes = int64_t{1} << 22;
  int32_t rounds = 3;
  int32_t threads = 1;          // That compute; the machine's.
  int32_t slowdown_rounds = 5;  // 0: copies are alone, and ops taken to be no slower beside them.
};

struct DiskMeasure {
  Rate evict;  // To the drive.
  Rate prefetch;
  double compute_slowdown = 1.0;  // Beside a copy, with all that a copy has the CPU do.
  int64_t free_bytes = 0;         // Of the folder's file system, before.
  bool is_direct = false;         // Past the system's cache.
};

// An error where the folder cannot be written to, has no room, or an option is not positive.
Result<DiskMeasure> measure_disk(const DiskOptions& options);

}  // namespace fitstep

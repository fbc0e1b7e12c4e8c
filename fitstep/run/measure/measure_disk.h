// Measures copies between RAM and the disk tier's file (disk_file.h) on this machine, with staging,
// checksums and the drive.
//
//   write, read   half a file in large blocks, while `threads` threads compute as ops do
//   both          reading one half while the other half is written
//   latency       the smallest block
//   slowdown      time of the compute threads during writing or reading / their time alone
//
// Each number is the median of a few rounds. All take a few seconds on a drive of 1 GB/s.
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
  int32_t threads = 1;          // Threads that compute.
  int32_t slowdown_rounds = 5;  // 0: no compute meanwhile; the slowdown is 1.
};

struct DiskMeasure {
  Rate evict;  // To the drive.
  Rate prefetch;
  double compute_slowdown = 1.0;  // While a copy runs and the CPU works for it.
  int64_t free_bytes = 0;         // Of the folder's file system, before the file.
  bool is_direct = false;         // With direct I/O.
};

// Errors: the folder cannot be written to or has no room; an option is not positive.
Result<DiskMeasure> measure_disk(const DiskOptions& options);

}  // namespace fitstep

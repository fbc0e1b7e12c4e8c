// How much more memory this process can use before the system or its container kills a process.
//
//   /proc/meminfo          available, and free swap
//   /proc/self/cgroup      the control group, and all above it: limit - memory in use that cannot
//   be dropped
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fitstep/base/result.h"

namespace fitstep {

// Folders of the system's numbers; tests use their own folders.
struct MemoryFiles {
  std::string proc = "/proc";
  std::string cgroups = "/sys/fs/cgroup";
};

// Whether pages may go to swap: locked pages cannot.
enum class Swap { Counts, CountsNot };

// The smallest limit minus use; none if no file can be read.
std::optional<int64_t> free_memory_bytes(Swap swap = Swap::Counts, const MemoryFiles& files = {});

// Error: `size_bytes` and a small margin are known to exceed the free memory.
Status check_free_memory(int64_t size_bytes, Swap swap = Swap::Counts,
                         const MemoryFiles& files = {});

}  // namespace fitstep

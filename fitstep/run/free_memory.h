// How much more memory this process can have before the system, or the container that it runs in,
// ends a process for want of it.
//
//   /proc/meminfo          available, and free swap
//   /proc/self/cgroup      the control group, and all above it: limit - use that cannot be dropped
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "fitstep/base/result.h"

namespace fitstep {

// Where the system tells it; tests have folders of their own.
struct MemoryFiles {
  std::string proc = "/proc";
  std::string cgroups = "/sys/fs/cgroup";
};

// Whether pages may go to swap: those that are locked do not.
enum class Swap { Counts, CountsNot };

// The least of what these leave; nothing where none of them can be read.
std::optional<int64_t> free_memory_bytes(Swap swap = Swap::Counts, const MemoryFiles& files = {});

// An error where so many bytes more, and a little beside them, are known not to be there.
Status check_free_memory(int64_t size_bytes, Swap swap = Swap::Counts,
                         const MemoryFiles& files = {});

}  // namespace fitstep

#include "fitstep/run/free_memory.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "fitstep/base/bytes.h"
#include "fitstep/base/result.h"

namespace fitstep {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMargin = 100;  // One hundredth stays free, for page tables and others.

std::optional<int64_t> parse(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return std::nullopt;  // Such as "max".
  return number;
}

std::optional<int64_t> number_in(const std::string& path) {
  std::string word;
  if (!(std::ifstream(path) >> word)) return std::nullopt;
  return parse(word);
}

// Reads a number from lines such as "MemAvailable:  100 kB" or "inactive_file 4096".
std::optional<int64_t> number_of(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(name)) continue;
    const size_t begin = line.find_first_of("0123456789", name.size());
    const std::string_view between =
        std::string_view(line).substr(name.size(), begin - name.size());
    if (begin == std::string::npos || between.find_first_not_of(": \t") != std::string::npos) {
      continue;
    }
    return parse(std::string_view(line).substr(begin));
  }
  return std::nullopt;
}

std::optional<int64_t> least(std::optional<int64_t> a, std::optional<int64_t> b) {
  return a && b ? std::min(a, b) : (a ? a : b);
}

int64_t free_swap_bytes(const MemoryFiles& files) {
  return number_of(files.proc + "/meminfo", "SwapFree").value_or(0) * kKiB;
}

// File names of one version of control groups.
struct GroupFiles {
  const char* limit;
  const char* use;
  const char* inactive;  // In memory.stat: pages of files can be dropped.
  const char* active;
  const char* swap_limit;
  const char* swap_use;
};
constexpr GroupFiles kFirst = {"memory.limit_in_bytes",
                               "memory.usage_in_bytes",
                               "total_inactive_file",
                               "total_active_file",
                               nullptr,
                               nullptr};
constexpr GroupFiles kSecond = {"memory.max",  "memory.current",  "inactive_file",
                                "active_file", "memory.swap.max", "memory.swap.current"};

// `swap_bytes`: free swap of the system; the limit of a group cannot add to it.
std::optional<int64_t> of_group(const std::string& folder, const GroupFiles& names,
                                int64_t swap_bytes) {
  const std::optional<int64_t> limit = number_in(folder + "/" + names.limit);
  const std::optional<int64_t> use = number_in(folder + "/" + names.use);
  if (!limit || !use) return std::nullopt;
  const std::string stat = folder + "/memory.stat";
  const int64_t of_files =
      number_of(stat, names.inactive).value_or(0) + number_of(stat, names.active).value_or(0);
  const int64_t left = *limit - std::max<int64_t>(*use - of_files, 0);
  int64_t swap_left = swap_bytes;
  if (names.swap_limit != nullptr) {
    const std::optional<int64_t> swap = number_in(folder + "/" + names.swap_limit);
    const int64_t swapped = number_in(folder + "/" + names.swap_use).value_or(0);
    if (swap) swap_left = std::min(swap_left, std::max<int64_t>(*swap - swapped, 0));
  }
  return std::max<int64_t>(left, 0) + swap_left;
}

// Free memory of a group and all groups above it, up to the mount. In a container the path may be
// the host's, of which only the last folder exists.
std::optional<int64_t> of_groups(const std::string& mount, std::string path,
                                 const GroupFiles& names, int64_t swap_bytes) {
  std::optional<int64_t> found = of_group(mount, names, swap_bytes);
  while (!path.empty() && path != "/") {
    found = least(found, of_group(mount + path, names, swap_bytes));
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
  return found;
}

std::optional<int64_t> of_container(const MemoryFiles& files, int64_t swap_bytes) {
  std::optional<int64_t> found;
  std::ifstream groups(files.proc + "/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {  // "0::/path", or "4:memory:/path".
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string kinds = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (kinds == ",,") found = least(found, of_groups(files.cgroups, path, kSecond, swap_bytes));
    if (kinds.find(",memory,") != std::string::npos) {
      found = least(found, of_groups(files.cgroups + "/memory", path, kFirst, swap_bytes));
    }
  }
  return found;
}

}  // namespace

std::optional<int64_t> free_memory_bytes(Swap swap, const MemoryFiles& files) {
  const int64_t swap_bytes = swap == Swap::Counts ? free_swap_bytes(files) : 0;
  std::optional<int64_t> of_system = number_of(files.proc + "/meminfo", "MemAvailable");
  if (of_system) of_system = *of_system * kKiB + swap_bytes;
  return least(of_system, of_container(files, swap_bytes));
}

Status check_free_memory(int64_t size_bytes, Swap swap, const MemoryFiles& files) {
  const std::optional<int64_t> free = free_memory_bytes(swap, files);
  if (!free || size_bytes <= *free - *free / kMargin) return Done{};
  return Error{ErrorCode::Device, "the system or its container has " + format_bytes(*free) +
                                      " of memory left, and " + format_bytes(size_bytes) +
                                      " more are needed; lower the budget or free memory"};
}

}  // namespace fitstep

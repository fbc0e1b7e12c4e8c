// `fitstep machine --measure`.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>

#include "cli/verbs/machine.h"
#include "fitstep/base/bytes.h"
#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/run/measure/measure_codecs.h"
#include "fitstep/run/measure/measure_disk.h"
#include "fitstep/run/measure/measure_link.h"

namespace fitstep {
namespace {

int64_t ram_bytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  return std::max<int64_t>(0, pages) * std::max<int64_t>(0, page_bytes);
}

Status add_disk(const std::string& folder, Machine& machine) {
  FITSTEP_TRY(const DiskMeasure disk,
              measure_disk({.file = {.folder = folder}, .threads = machine.threads}));
  machine.links.push_back(Link{.upper = TierId(machine.tiers.size() - 1),
                               .evict = disk.evict,
                               .prefetch = disk.prefetch,
                               .compute_slowdown = disk.compute_slowdown});
  machine.tiers.push_back({.name = "disk", .capacity_bytes = disk.free_bytes});
  const std::string how =
      fmt::format("measured on a file in {} while threads compute, with checksums, {}", folder,
                  disk.is_direct ? "with direct I/O" : "synced and dropped from the page cache");
  machine.sources.push_back({.figure = "tiers[2].capacity_bytes", .source = "free in " + folder});
  machine.sources.push_back({.figure = "links[1].evict", .source = how});
  machine.sources.push_back({.figure = "links[1].prefetch", .source = how});
  machine.sources.push_back(
      {.figure = "links[1].compute_slowdown",
       .source = "measured: compute threads during copies to the file, over the same work alone"});
  FITSTEP_TRY(machine.codecs, measure_codecs({.threads = machine.threads}));
  machine.sources.push_back(
      {.figure = "codecs",
       .source = "measured: one thread codes data, half zeros, while the other threads compute"});
  return Done{};
}

}  // namespace

Result<Machine> measure_machine(const MachineVerbOptions& options) {
  const int64_t ram = ram_bytes();
  Machine machine{.name = options.name.empty() ? "measured" : options.name,
                  .threads = options.threads};
  if (machine.threads == 0) {
    machine.threads = std::max(1, static_cast<int32_t>(std::thread::hardware_concurrency()));
  }
  machine.tiers = {{.name = "device", .capacity_bytes = ram / 2},
                   {.name = "host", .capacity_bytes = ram / 2}};
  FITSTEP_TRY(const Link link, measure_host_link({.threads = machine.threads}));
  machine.links = {link};
  const std::string half = fmt::format(
      "half of the {} of RAM: device and host share it, and budgets divide it", format_bytes(ram));
  const std::string copies =
      "measured: memcpy by one thread while all threads compute, median of several rounds";
  machine.sources = {
      {.figure = "threads", .source = options.threads == 0 ? "all cores" : "--threads"},
      {.figure = "launch_ps", .source = "0: recorded times of ops include their launches"},
      {.figure = "tiers[0].capacity_bytes", .source = half},
      {.figure = "tiers[1].capacity_bytes", .source = half},
      {.figure = "links[0].evict", .source = copies},
      {.figure = "links[0].prefetch", .source = copies},
      {.figure = "links[0].compute_slowdown",
       .source = "measured: compute threads during a copy, over the same work alone"}};
  if (options.disk_path.empty()) return machine;
  FITSTEP_TRY_STATUS(add_disk(options.disk_path, machine));
  return machine;
}

}  // namespace fitstep

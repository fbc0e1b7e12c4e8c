#include "fitstep/simulate/longest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

// Picoseconds per byte, both ways, over the slowest link to a tier that may be used.
double slowest_ps_per_byte(const Machine& machine) {
  double slowest = 0;
  for (const Link& link : machine.links) {
    if (room_bytes(machine, TierId(link.upper.index() + 1)) == 0) continue;
    double both_ways = 0;
    for (const Rate& rate : {link.evict, link.prefetch}) {
      const int64_t shared = rate.both_bytes_per_s;
      const int64_t alone = rate.alone_bytes_per_s;
      const int64_t least = shared > 0 ? std::min(shared, alone) : alone;
      if (least > 0) both_ways += 1 / static_cast<double>(least);
    }
    slowest = std::max(slowest, both_ways);
  }
  return slowest * static_cast<double>(kPicosecondsPerSecond);
}

double most_slowdown(const Machine& machine) {
  double most = 1;
  for (const Link& link : machine.links) most = std::max(most, link.compute_slowdown);
  return most;
}

}  // namespace

Status check_longest(const Program& program, const Machine& machine) {
  constexpr auto kMostPs = static_cast<double>(int64_t{1} << 62);
  const double ps_per_byte = slowest_ps_per_byte(machine);
  const double slowdown = most_slowdown(machine);
  double ops_ps = 0;
  double copies_ps = 0;
  for (const Op& op : program.ops) {
    double op_ps = 0;
    double operands_bytes = 0;
    for (const Form& form : op.forms) {
      double bytes = 0;
      for (const Read& read : form.reads) {
        bytes += static_cast<double>(program.storages[read.storage.index()].size_bytes);
      }
      for (const Write& write : form.writes) {
        bytes += static_cast<double>(program.storages[write.storage.index()].size_bytes);
      }
      operands_bytes = std::max(operands_bytes, bytes);
      op_ps = std::max(op_ps, static_cast<double>(form.time_ps));
    }
    ops_ps += (op_ps + static_cast<double>(machine.launch_ps)) * slowdown;
    copies_ps += operands_bytes * ps_per_byte;
  }
  if (ops_ps + copies_ps < kMostPs) return Done{};
  constexpr double kPicosecondsPerDay = 86'400.0 * static_cast<double>(kPicosecondsPerSecond);
  return Error{
      ErrorCode::BadInput,
      fmt::format(
          "machine \"{}\" is too slow for {}: its ops may take {:.0f} days and "
          "their copies {:.0f} days, and the limit is 53 days; check the times in the program, use "
          "a faster machine, or close its tiers (--host-budget 0 --disk-budget 0)",
          machine.name, program.name, ops_ps / kPicosecondsPerDay, copies_ps / kPicosecondsPerDay)};
}

}  // namespace fitstep

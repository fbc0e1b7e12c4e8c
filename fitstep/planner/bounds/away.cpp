#include "fitstep/planner/bounds/away.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"

namespace fitstep {
namespace {

// Times of copies are rounded to whole picoseconds. So if the time per byte is not whole, copies
// may be this much faster.
constexpr double kRounding = 1 - 1e-9;
// The same for a whole time per byte, if copies to host and disk share the link.
constexpr double kSharedRounding = 1 - 1e-12;

double ps_per_byte(const Rate& rate) {
  const auto bytes_per_s =
      static_cast<double>(std::max(rate.alone_bytes_per_s, rate.both_bytes_per_s));
  const double ps = static_cast<double>(kPicosecondsPerSecond) / bytes_per_s;
  return ps == std::floor(ps) ? ps : ps * kRounding;
}

const Link* link_below(const Machine& machine, TierId upper) {
  const auto is_it = [&](const Link& link) {
    return link.upper == upper && link.evict.alone_bytes_per_s > 0 &&
           link.prefetch.alone_bytes_per_s > 0;
  };
  const auto found = std::ranges::find_if(machine.links, is_it);
  return found == machine.links.end() ? nullptr : &*found;
}

CopyCost cost_of(const Link& link) {
  return {.evict_ps_per_byte = ps_per_byte(link.evict),
          .prefetch_ps_per_byte = ps_per_byte(link.prefetch)};
}

CopyCost slower_of(const CopyCost& a, const CopyCost& b) {
  return {.evict_ps_per_byte = std::max(a.evict_ps_per_byte, b.evict_ps_per_byte),
          .prefetch_ps_per_byte = std::max(a.prefetch_ps_per_byte, b.prefetch_ps_per_byte)};
}

CopyCost shared(const CopyCost& cost) {
  return {.evict_ps_per_byte = cost.evict_ps_per_byte * kSharedRounding,
          .prefetch_ps_per_byte = cost.prefetch_ps_per_byte * kSharedRounding};
}

// Share of a copy's time on the link that ops beside the copy lose.
double slowing_of(const Link& link) {
  constexpr double kRounded = 0.98;
  return (1 - 1 / std::max(link.compute_slowdown, 1.0)) * kRounded;
}

int64_t room_or_no_limit(const Machine& machine, TierId tier) {
  const int64_t bytes = room_bytes(machine, tier);
  return bytes == kUnlimitedBytes ? std::numeric_limits<int64_t>::max() : bytes;
}

}  // namespace

int64_t whole_ps(double ps) {
  // Plans take whole picoseconds, so rounding down removes an error below half of one.
  if (ps >= static_cast<double>(kLongestPs)) return kLongestPs;
  const double error_ps = ps * 1.5e-15;
  return static_cast<int64_t>(std::floor(error_ps < 0.5 ? ps : ps - error_ps));
}

Away make_away(const Machine& machine) {
  Away away;
  const Link* host = link_below(machine, kDeviceTier);
  const Link* disk = link_below(machine, kHostTier);
  if (host == nullptr) return away;
  away.host_bytes = room_or_no_limit(machine, kHostTier);
  away.disk_bytes = disk == nullptr ? 0 : room_or_no_limit(machine, kDiskTier);
  if (away.host_bytes == 0 && away.disk_bytes == 0) return away;
  away.is_possible = true;
  away.host = cost_of(*host);
  away.slowing = slowing_of(*host);
  if (away.disk_bytes == 0) return away;
  if (away.host_bytes == 0) {  // Then the disk is the tier below.
    away.host = slower_of(away.host, cost_of(*disk));
    away.slowing = slowing_of(*disk);  // Link 0 is in use for a part of the copy's time only.
    away.host_bytes = away.disk_bytes;
    return away;
  }
  if (away.host_bytes == std::numeric_limits<int64_t>::max()) return away;
  away.has_disk = true;
  away.host = shared(away.host);
  away.disk = cost_of(*disk);
  return away;
}

}  // namespace fitstep

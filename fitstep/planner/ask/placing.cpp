#include "fitstep/planner/ask/placing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fitstep/base/bytes.h"
#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/ask/question.h"
#include "fitstep/planner/request.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

bool can_be_below(const SharedHome& home) { return home.may_be_below && home.size_bytes > 0; }

// Homes of one name share one place. In a file a name may be empty or double: it gets a suffix.
std::map<std::string, StorageId> homes_by_name(const Program& program) {
  std::map<std::string, StorageId> found;
  for (size_t i = 0; i < program.storages.size(); ++i) {
    const Storage& storage = program.storages[i];
    if (!has_home(storage)) continue;
    std::string name = storage.name.empty() ? fmt::format("#{}", i) : storage.name;
    while (!found.emplace(name, StorageId(i)).second) name += fmt::format("#{}", i);
  }
  return found;
}

std::map<StorageId, std::string> names_of(const Program& program) {
  std::map<StorageId, std::string> names;
  for (const auto& [name, storage] : homes_by_name(program)) names.emplace(storage, name);
  return names;
}

}  // namespace

std::vector<SharedHome> homes_of(const Program& program) {
  std::vector<SharedHome> homes;
  for (const auto& [storage, name] : names_of(program)) {
    homes.push_back({.name = name, .size_bytes = program.storages[storage.index()].size_bytes});
  }
  return homes;
}

Places stacked(std::vector<SharedHome> homes, const Names& below, bool on_disk,
               int64_t alignment_bytes) {
  Places places{.on_disk = on_disk};
  const int64_t unit_below = on_disk ? kDiskAlignmentBytes : alignment_bytes;
  for (SharedHome& home : homes) {
    home.is_below = can_be_below(home) && below.contains(home.name);
    int64_t& bottom_bytes = home.is_below ? places.host_bottom_bytes : places.bottom_bytes;
    home.offset_bytes = bottom_bytes;
    bottom_bytes += align_up(home.size_bytes, home.is_below ? unit_below : alignment_bytes);
  }
  places.homes = std::move(homes);
  return places;
}

Names all_below(std::vector<SharedHome> homes, int64_t room_bytes, int64_t alignment_bytes) {
  // The result does not depend on the order of `homes`.
  std::ranges::sort(homes, [](const SharedHome& a, const SharedHome& b) {
    return std::tie(b.size_bytes, a.name) < std::tie(a.size_bytes, b.name);
  });
  Names names;
  for (const SharedHome& home : homes) {
    const int64_t bytes = align_up(home.size_bytes, alignment_bytes);
    if (!can_be_below(home) || bytes > room_bytes) continue;
    room_bytes -= bytes;
    names.insert(home.name);
  }
  return names;
}

Names homes_below(const Program& program, const Plan& plan) {
  const std::map<StorageId, std::string> known = names_of(program);
  Names names;
  for (const Residency& it : plan.residencies) {
    const auto found = known.find(it.storage);  // Not if the plan is of another program.
    if (it.is_home && it.tier == kHostTier && found != known.end()) names.insert(found->second);
  }
  return names;
}

Places places_in(const Program& program, const Plan& plan, std::vector<SharedHome> homes) {
  const std::map<StorageId, std::string> known = names_of(program);
  std::map<std::string, const Residency*> by_name;
  Places places;
  for (const Residency& it : plan.residencies) {
    const auto name = known.find(it.storage);
    const bool is_possible = it.offset_bytes >= 0 && it.offset_bytes <= kUnlimitedBytes;
    if (!it.is_home || name == known.end() || !is_possible) continue;  // Of another program.
    by_name.emplace(name->second, &it);
    int64_t& bottom_bytes = it.tier == kHostTier ? places.host_bottom_bytes : places.bottom_bytes;
    const int64_t size_bytes = program.storages[it.storage.index()].size_bytes;
    bottom_bytes = std::max(bottom_bytes, it.offset_bytes + size_bytes);
  }
  places.bottom_bytes = align_up(places.bottom_bytes, program.alignment_bytes);
  places.host_bottom_bytes = align_up(places.host_bottom_bytes, kAlignmentBytes);
  for (SharedHome& home : homes) {
    const auto found = by_name.find(home.name);
    // A home without bytes goes to the bottom, where no other home is.
    const bool has_bytes = home.size_bytes > 0 && found != by_name.end();
    home.is_below = has_bytes && found->second->tier == kHostTier;
    home.offset_bytes = has_bytes ? found->second->offset_bytes : places.bottom_bytes;
  }
  places.homes = std::move(homes);
  return places;
}

bool has_all(const Program& program, const std::vector<SharedHome>& homes) {
  const std::map<std::string, StorageId> known = homes_by_name(program);
  return std::ranges::all_of(homes, [&](const SharedHome& home) {
    if (home.size_bytes == 0) return true;
    const auto found = known.find(home.name);
    return home.may_be_below && found != known.end() &&
           program.storages[found->second.index()].size_bytes == home.size_bytes;
  });
}

bool has_homes_at(const Program& program, const Plan& plan, const Places& places) {
  std::map<StorageId, Home> known;
  for (const Home& home : homes_for(program, places)) known.emplace(home.storage, home);
  return std::ranges::all_of(plan.residencies, [&](const Residency& it) {
    if (!it.is_home || it.size_bytes == 0) return true;
    const auto found = known.find(it.storage);
    return found != known.end() && found->second.tier == it.tier &&
           found->second.offset_bytes == it.offset_bytes;
  });
}

std::vector<Home> homes_for(const Program& program, const Places& places) {
  const std::map<std::string, StorageId> known = homes_by_name(program);
  std::vector<Home> homes;
  for (const SharedHome& home : places.homes) {
    const auto found = known.find(home.name);
    if (found == known.end()) continue;
    homes.push_back({.storage = found->second,
                     .offset_bytes = home.offset_bytes,
                     .tier = home.is_below ? kHostTier : kDeviceTier});
  }
  std::ranges::sort(homes, {}, &Home::storage);
  return homes;
}

int64_t size_on_disk(const std::vector<SharedHome>& homes) {
  int64_t bytes = 0;
  for (const SharedHome& home : homes) bytes += align_up(home.size_bytes, kDiskAlignmentBytes);
  return bytes;
}

Machine with_homes_on_disk(Machine machine, int64_t size_bytes) {
  if (size_bytes == 0) return machine;
  Tier& host = machine.tiers[kHostTier.index()];
  host.capacity_bytes = size_bytes;
  host.is_closed = false;
  const auto below = [&](TierId upper) {
    return std::ranges::find(machine.links, upper, &Link::upper);
  };
  Link as_disk = *below(kHostTier);
  as_disk.upper = kDeviceTier;
  *below(kDeviceTier) = as_disk;
  int64_t& left_bytes = machine.tiers[kDiskTier.index()].capacity_bytes;
  if (left_bytes == 0) return machine;  // 0: the size of the disk is not known.
  left_bytes -= size_bytes;
  if (left_bytes > 0) return machine;
  machine.links.erase(below(kHostTier));
  machine.tiers.pop_back();
  return machine;
}

}  // namespace fitstep

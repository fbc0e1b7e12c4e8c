// Placing: gives homes that several programs share their offsets, stacked in order on each tier.
//
//   arena | home | home |            below | home | home |
//         0             bottom             0             host bottom
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/ask/question.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

using Names = std::set<std::string>;

// The homes of a program, in the order of its storages, without offsets.
std::vector<SharedHome> homes_of(const Program& program);

// Stacks the homes named in `below` below, on the disk if `on_disk`, the others in the arena.
Places stacked(std::vector<SharedHome> homes, const Names& below, bool on_disk,
               int64_t alignment_bytes);

// Homes to put below: all that may be below and have bytes, the largest first while room is left.
Names all_below(std::vector<SharedHome> homes, int64_t room_bytes, int64_t alignment_bytes);

// The homes that the plan has below.
Names homes_below(const Program& program, const Plan& plan);

// The places of homes in a plan whose planner was free to choose. Ignores homes in the plan's file
// that the program does not have: has_homes_at() is then false.
Places places_in(const Program& program, const Plan& plan, std::vector<SharedHome> homes);

// Whether the program has all of the homes, and all of them may be on any tier.
bool has_all(const Program& program, const std::vector<SharedHome>& homes);

// The homes of the program, at their places, for a request.
std::vector<Home> homes_for(const Program& program, const Places& places);

// Whether all homes of the plan are at these places.
bool has_homes_at(const Program& program, const Plan& plan, const Places& places);

// Bytes of all homes on the disk, aligned.
int64_t size_on_disk(const std::vector<SharedHome>& homes);

// The machine for plans with homes on the disk. Plans see these homes on the host tier: this tier
// has room for the homes only, and its link is as fast as the disk's.
Machine with_homes_on_disk(Machine machine, int64_t size_bytes);

}  // namespace fitstep

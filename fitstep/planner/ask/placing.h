// Placing homes that several programs share: stacked in their order, each on its tier.
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

// The homes of a program, in the order of its storages; not placed yet.
std::vector<SharedHome> homes_of(const Program& program);

// Homes with these names below, on the disk if `on_disk`, the others in the arena.
Places stacked(std::vector<SharedHome> homes, const Names& below, bool on_disk,
               int64_t alignment_bytes);

// All that may be below and has bytes, the largest first, as long as there is room.
Names all_below(std::vector<SharedHome> homes, int64_t room_bytes, int64_t alignment_bytes);

// Those that the plan has below.
Names homes_below(const Program& program, const Plan& plan);

// As the plan has them, which was free to choose. Of what a file says beside the program nothing
// counts: has_homes_at() is false then.
Places places_in(const Program& program, const Plan& plan, std::vector<SharedHome> homes);

// Whether the program has all of the homes, and they may be on all tiers.
bool has_all(const Program& program, const std::vector<SharedHome>& homes);

// The homes of the program that places have, for a request.
std::vector<Home> homes_for(const Program& program, const Places& places);

// Whether the plan has its homes where they are.
bool has_homes_at(const Program& program, const Plan& plan, const Places& places);

// What all of them would take on the disk.
int64_t size_on_disk(const std::vector<SharedHome>& homes);

// The machine whose disk holds homes: for plans they are on the host tier, which has nothing else
// then and copies as the disk does.
Machine with_homes_on_disk(Machine machine, int64_t size_bytes);

}  // namespace fitstep

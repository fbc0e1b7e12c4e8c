// A budget question and its answer.
//
//   programs, budget --> Fitting   plans, and where the homes that they share are
//                    \-> Refusal   the floor, the least budget found, who binds it
//
// Programs that share an arena are the variants of one step, or of several: they have their homes
// in common, which have one place each, and the larger of what two of them need is what both need.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/budget.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

// One of the programs. Neither is owned; both have to stay until the answer is there.
struct Asked {
  const Program* program = nullptr;
  std::string policy = PlanRequest{}.policy;
  const Plan* given = nullptr;  // To be used as it is, with its homes.
};

// A persistent storage, which all programs know by its name.
struct SharedHome {
  std::string name;
  int64_t size_bytes = 0;
  bool may_be_below = true;  // False for what is in none of the tiers.
  bool is_below = false;     // On the host tier, or on the disk.
  int64_t offset_bytes = 0;  // On its tier.

  bool operator==(const SharedHome&) const = default;
};

// Where all of them are.
struct Places {
  std::vector<SharedHome> homes;  // In the order in which they came, and are stacked.
  int64_t bottom_bytes = 0;       // Where those in the arena end ...
  int64_t host_bottom_bytes = 0;  // ... and those below.
  bool on_disk = false;           // Below is the disk.

  bool operator==(const Places&) const = default;
};

struct BudgetQuestion {
  std::vector<Asked> programs;  // The last is the one that most steps run.
  Places places;                // No homes: those that the program has.
  int64_t budget_bytes = 0;     // Of all that the step holds on the device.
  int64_t outside_bytes = 0;    // Of that, what is neither a tensor nor the arena.
  int64_t external_bytes = 0;   // Inputs, outputs and constants of the largest program.
  int64_t alignment_bytes = kAlignmentBytes;
  // The tiers below may depend on the budget without what is outside: pieces of files do.
  std::function<Machine(int64_t tensor_bytes)> machine_for;
  bool may_have_homes_on_disk = false;
  // Any budget is right: what is asked is only where to begin.
  bool is_free = false;
  // The capacity of the arena that is open: homes are where they are. Nothing: there is none yet.
  std::optional<int64_t> arena_bytes;
  PlanRequest request;  // All but homes, capacity and policy.
};

struct Fitting {
  std::vector<Plan> plans;  // Of the programs, in their order.
  Places places;
  int64_t capacity_bytes = 0;  // That they were made for.
  int64_t budget_bytes = 0;    // As asked, unless any was right.
};

struct Refusal {
  int64_t budget_bytes = 0;        // For which there are no plans.
  int64_t floor_bytes = 0;         // Of the arena: provably none is possible with less.
  int64_t floor_budget_bytes = 0;  // The least budget with an arena of that.
  // With plans for all programs; nothing if none was found, or nobody wants to know.
  std::optional<int64_t> least_bytes;
  std::optional<int64_t> least_budget_bytes;
  size_t binding = 0;  // The program with that floor, and its ops; largest first.
  std::vector<Culprit> culprits;
  std::optional<bool> does_auto_fit;  // Where another policy was asked for.

  bool is_proven() const { return budget_bytes < floor_budget_bytes; }
};

using BudgetAnswer = std::variant<Fitting, Refusal>;

}  // namespace fitstep

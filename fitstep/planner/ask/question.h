// A budget question and its answer.
//
//   programs, budget --> Fitting   plans, and the places of the shared homes
//                    \-> Refusal   the floor, the least budget found, the ops that set the floor
//
// Programs that share an arena are variants of one step or of several steps. They share their
// homes, and each home has one place. The program that needs most decides about the budget.
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

// One of the programs. The caller owns program and plan and keeps them until the answer is there.
struct Asked {
  const Program* program = nullptr;
  std::string policy = PlanRequest{}.policy;
  const Plan* given = nullptr;  // If set: use this plan and its homes, do not plan.
};

// A persistent storage that the programs share; they find it by its name.
struct SharedHome {
  std::string name;
  int64_t size_bytes = 0;
  bool may_be_below = true;  // False if it is in no tier: a CPU tensor beside a GPU, for example.
  bool is_below = false;     // On the host tier, or on the disk.
  int64_t offset_bytes = 0;  // On its tier.

  bool operator==(const SharedHome&) const = default;
};

// The places of all shared homes.
struct Places {
  std::vector<SharedHome> homes;  // Stacked in this order.
  int64_t bottom_bytes = 0;       // Where the homes in the arena end ...
  int64_t host_bottom_bytes = 0;  // ... and the homes below.
  bool on_disk = false;           // Whether the homes below are on the disk.

  bool operator==(const Places&) const = default;
};

struct BudgetQuestion {
  std::vector<Asked> programs;  // The last is the one that most steps run.
  Places places;                // Without homes: takes those of the last program.
  int64_t budget_bytes = 0;     // For all that the step holds on the device.
  int64_t outside_bytes = 0;    // Of the budget: for all that is neither a tensor nor the arena.
  int64_t external_bytes = 0;   // Inputs, outputs and constants of the largest program.
  int64_t alignment_bytes = kAlignmentBytes;
  // The machine for a budget less `outside_bytes`: the pieces of a disk's files depend on it.
  std::function<Machine(int64_t tensor_bytes)> machine_for;
  bool may_have_homes_on_disk = false;
  // True: `budget_bytes` is only where to begin.
  bool may_grow = false;
  // The capacity of the open arena, in which homes cannot move. Nothing: no arena is open yet.
  std::optional<int64_t> arena_bytes;
  PlanRequest request;      // Homes, capacity and policy in it are not used.
  bool finds_least = true;  // False: a refusal does not search for the least budget.
};

struct Fitting {
  std::vector<Plan> plans;  // One per program, in their order.
  Places places;
  int64_t capacity_bytes = 0;  // The plans were made for this capacity.
  int64_t budget_bytes = 0;    // The budget asked, or a larger one if it may grow.
};

struct Refusal {
  int64_t budget_bytes = 0;        // The budget for which no plans were found.
  int64_t floor_bytes = 0;         // Proven: no plan fits an arena of less.
  int64_t floor_budget_bytes = 0;  // The least budget with an arena of floor_bytes.
  // The least with plans for all programs; nothing if none was found or none was searched for.
  std::optional<int64_t> least_bytes;
  std::optional<int64_t> least_budget_bytes;
  size_t binding = 0;                 // The program with that floor ...
  std::vector<Culprit> culprits;      // ... and its largest ops, largest first.
  std::optional<bool> does_auto_fit;  // Set if the question names another policy than "auto".

  bool is_proven() const { return budget_bytes < floor_budget_bytes; }
};

using BudgetAnswer = std::variant<Fitting, Refusal>;

}  // namespace fitstep

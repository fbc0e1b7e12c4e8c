// A request for a plan, and the three answers that there are, never merged: a plan; the proof that
// no plan exists (the budget is below the floor); or "gave up", with the least height that was
// found.
//
//   PlanRequest  homes, capacity, policy, effort  -->  Fits | TooSmall | GaveUp
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"

namespace fitstep {

// The home of a persistent storage, decided before planning and shared by all variants.
struct Home {
  StorageId storage;
  int64_t offset_bytes = 0;  // On its tier.
  TierId tier = kDeviceTier;
};

inline constexpr int32_t kUsualEffort = 8;
inline constexpr double kFirstPlan = 1e-9;  // As a time limit: the first plan that is found.

struct PlanRequest {
  // One for every persistent storage; empty: the planner chooses their tiers and stacks them.
  std::vector<Home> homes;
  int64_t bottom_bytes = 0;       // Nothing but homes lies below this device address ...
  int64_t host_bottom_bytes = 0;  // ... and below this one of the host tier.
  int64_t capacity_bytes = 0;     // Of the device arena.
  uint64_t seed = 1;
  // Rounds of selection and layout per target; more is slower, better.
  int32_t effort = kUsualEffort;
  // Seconds, 0 for no limit. Until then the search goes on with more effort, so plans may differ
  // from run to run; then the best plan so far is the answer, or the first that is found.
  double time_limit_s = 0;
  int32_t threads = 1;          // That search; the answer is the same with any number of them.
  std::string policy = "auto";  // One of policy_names().
  // Which copies may be in a code, where the program says what codes make of them (codes.h): those
  // to the disk if the policy's may, and those to the host whatever it says.
  bool codes_on_disk = true;
  bool codes_on_host = false;
  // Where no plan is found: looks for a capacity for which this request finds one. With offload
  // that takes longer than planning; find_least() (least.h) is quicker and gets closer.
  bool says_least = true;
  // Called with a fraction done (0 .. 1); may be empty.
  std::function<void(double)> progress;
};

// Every policy that a request may name; the first is what people want.
//   auto             recompute, and offload where the machine has a host tier
//   none             keep everything
//   recompute        one of the two moves alone
//   offload
//   recompute-sqrt   every k-th narrow cut of n is kept, k = sqrt(n)
//   vdnn-dyn, ...    what published systems do: policies/policies.h
std::span<const char* const> policy_names();

// An op that binds the floor or the least height found.
struct Culprit {
  OpId op;
  int64_t bytes = 0;  // What must be resident while it runs.
};

struct Fits {
  Plan plan;
};
struct TooSmall {
  int64_t floor_bytes = 0;
  std::vector<Culprit> culprits;  // Largest first.
};
struct GaveUp {
  // With offload a capacity for which the same request finds a plan, not the height of that plan;
  // 0 where nobody wanted to know, or none was found.
  int64_t least_found_bytes = 0;
  int64_t floor_bytes = 0;
  std::vector<Culprit> culprits;
};
using Outcome = std::variant<Fits, TooSmall, GaveUp>;

// One point of the frontier: the plan that is fastest among those of at most its height.
struct Point {
  int64_t height_bytes = 0;
  int64_t predicted_ps = 0;
  Plan plan;
};

struct Frontier {
  int64_t floor_bytes = 0;    // Proven.
  int64_t bound_ps = 0;       // No plan is faster.
  std::vector<Point> points;  // Height falls, time rises; no point is beaten by another.
  std::vector<Culprit> culprits;
};

}  // namespace fitstep

// A request for a plan, and its three possible answers.
//
//   PlanRequest  homes, capacity, policy, effort  -->  Fits      a plan
//                                                  |   TooSmall  proof that no plan can exist
//                                                  |   GaveUp    no plan found; a capacity to try
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "fitstep/base/deadline.h"
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

struct PlanRequest {
  // One for every persistent storage; empty: the planner chooses tiers and offsets of the homes.
  std::vector<Home> homes;
  int64_t bottom_bytes = 0;       // Below this device address there are only homes ...
  int64_t host_bottom_bytes = 0;  // ... and so below this address of the host tier.
  int64_t capacity_bytes = 0;     // Of the device arena.
  uint64_t seed = 1;
  // Rounds of selection and layout per target. Raise it for faster plans; planning takes longer.
  int32_t effort = kUsualEffort;
  // Seconds; 0 for no limit. The search goes on for at most this time, until it cannot find better
  // plans, so plans may differ from run to run. At the limit the answer is the best plan so far;
  // without any, the next plan found.
  double time_limit_s = 0;
  bool takes_first_plan = false;  // True: the answer is the first plan found. No time limit counts.
  int32_t threads = 1;            // Of the search; the plan is the same with any number of threads.
  std::string policy = "auto";    // One of policy_names().
  // Which copies may be compressed, if the program knows the compressed sizes (codes.h). Copies to
  // the disk also need a policy that allows it; copies to the host do not depend on the policy.
  bool codes_on_disk = true;
  bool codes_on_host = false;
  // If no plan is found: search for a capacity that works. With offload this takes longer than
  // planning. find_least() (least.h) is faster and finds a smaller capacity.
  bool says_least = true;
  // Called with the fraction done (0 .. 1); may be empty.
  std::function<void(double)> progress;

  // Whether the policy leaves open what to evict, so that a search decides it.
  bool is_searched() const {
    return policy == "auto" || policy == "recompute" || policy == "offload";
  }
  // Whether the search may end before it has tried all that it would try.
  bool has_deadline() const { return takes_first_plan || time_limit_s > 0; }
  Deadline deadline() const {
    return takes_first_plan ? Deadline::passed() : Deadline(time_limit_s);
  }
};

// Every policy that a request may name. Use "auto" unless you compare policies.
//   auto             recompute, and offload if the machine has a host tier
//   none             keep everything
//   recompute        recompute only
//   offload          offload only
//   recompute-sqrt   keep every k-th of n narrow cuts, k = sqrt(n)
//   vdnn-dyn, ...    what published systems do: policies/policies.h
std::span<const char* const> policy_names();

// An op that needs most bytes: it sets the floor.
struct Culprit {
  OpId op;
  int64_t bytes = 0;  // That must be resident while the op runs.
};

struct Fits {
  Plan plan;
};
struct TooSmall {
  int64_t floor_bytes = 0;
  std::vector<Culprit> culprits;  // Largest first.
};
struct GaveUp {
  // A capacity for which the same request finds a plan; 0 if none is known. With offload it may be
  // more than the height of that plan.
  int64_t least_found_bytes = 0;
  int64_t floor_bytes = 0;
  std::vector<Culprit> culprits;
};
using Outcome = std::variant<Fits, TooSmall, GaveUp>;

// One point of the frontier: the fastest plan of at most this height.
struct Point {
  int64_t height_bytes = 0;
  int64_t predicted_ps = 0;
  Plan plan;
};

struct Frontier {
  int64_t floor_bytes = 0;    // Proven.
  int64_t bound_ps = 0;       // No plan is faster.
  std::vector<Point> points;  // Height falls, time rises; no point is both higher and slower.
  std::vector<Culprit> culprits;
};

}  // namespace fitstep

// Policies: the decisions of published systems, as plans of ours. Verifier, simulator and runtime
// do not know which policy made a plan.
//
//   task --> [ one file per system ] --> candidate     which values are evicted, and when
//
//   vdnn-none-p vdnn-conv-m vdnn-conv-p vdnn-all-m vdnn-all-p vdnn-dyn     vdnn.h
//   vdnn++-conv-m ... vdnn++-dyn vdnn++-alternate-m vdnn++-alternate-p     the same, waits deferred
//   tf-swap                                                                tf_swap.h
//   layrub-intra layrub-inter layrub                                       layrub.h
//   recompute-cheap                                                        recompute_cheap.h
//
// A policy does not search. If its plan exceeds the capacity, the candidate says how large it is.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fitstep/planner/candidates.h"

namespace fitstep {

struct Policy {
  const char* name;
  bool offloads;                                     // False: it recomputes or keeps everything.
  std::vector<Candidate> (*plan)(const Task& task);  // All placed; never empty.
  bool encodes = false;                              // Whether it compresses copies to the disk.
};

std::span<const Policy> published_policies();

// Null if no published policy has this name.
const Policy* find_policy(const std::string& name);

// Whether plans of this policy, published or ours, may compress copies to the disk.
bool may_code(const std::string& name);

}  // namespace fitstep

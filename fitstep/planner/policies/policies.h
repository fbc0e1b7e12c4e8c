// Policies: what published systems decide, as plans of ours. The verifier, the simulator and the
// runtime know nothing of them.
//
//   task --> [ one file per system ] --> candidate     which values leave, and when
//
//   vdnn-none-p vdnn-conv-m vdnn-conv-p vdnn-all-m vdnn-all-p vdnn-dyn     vdnn.h
//   vdnn++-conv-m ... vdnn++-dyn vdnn++-alternate-m vdnn++-alternate-p     the same, waits deferred
//   tf-swap                                                                tf_swap.h
//   layrub-intra layrub-inter layrub                                       layrub.h
//   recompute-cheap                                                        recompute_cheap.h
//
// A policy is what it is: it does not search, and where its plan is too large it says how large.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "fitstep/planner/candidates.h"

namespace fitstep {

struct Policy {
  const char* name;
  bool offloads;                                     // Else it recomputes, or keeps everything.
  std::vector<Candidate> (*plan)(const Task& task);  // Placed; never empty.
  bool encodes = false;                              // What it copies to the disk.
};

std::span<const Policy> published_policies();

// None for another name.
const Policy* find_policy(const std::string& name);

// Whether plans of a policy, published or not, may copy to the disk in codes.
bool may_code(const std::string& name);

}  // namespace fitstep

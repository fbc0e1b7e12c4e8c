// In order: plans a program in the first of several orders of its ops, with bounds for all of them.
// Every op has to run: packing.h reduces programs with optional ops before it calls this.
//
//   homes below       search                      pool                   plan
//   none       -->  candidates  --+
//   some       -->  candidates  --+-->  the best within the capacity  -->  codes, certificate
//   all        -->  candidates  --+        ^                        |       and verifier
//                                          +-- single homes moved --+
//
// If no candidate is within the capacity, larger ones are tried, to say which capacity works.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Like make_plan and make_frontier, for one order.
//
// REQUIRES: no op is optional; `orders` is not empty, and each is_valid_order().
Outcome plan_in_order(const Program& program, std::span<const std::vector<OpId>> orders,
                      const Machine& machine, const PlanRequest& request);
Frontier frontier_in_order(const Program& program, std::span<const std::vector<OpId>> orders,
                           const Machine& machine, const PlanRequest& request);

// Bounds of every plan, whichever optional ops it runs. The floor holds for any order, the time
// bound for these orders within the capacity.
struct Floor {
  int64_t bytes = 0;
  std::vector<Culprit> culprits;
};
Floor floor_in_order(const Program& program, std::span<const std::vector<OpId>> orders,
                     const Machine& machine, const PlanRequest& request);
TimeBound bound_in_order(const Program& program, std::span<const std::vector<OpId>> orders,
                         const Machine& machine, const PlanRequest& request,
                         int64_t capacity_bytes);

}  // namespace fitstep

// Codes: which of a plan's copies to tiers below are made in a code, so that less has to be written
// and read. Room is kept for all bytes, so addresses, waits and proofs stay as they are; only the
// expected time changes.
//
//   to the host: each copy in a code that is expected to be an eighth smaller: for the memory; by
//                kernels of the device for the time, all of them or none
//
//   to the disk, for the time:
//   plan, sizes in codes (program), rates (machine)
//     --> each copy in the code that is expected to be the quickest there and back
//     --> none at all, if the step is then quicker; else single ones without, or with, if that is
#pragma once

#include <cstdint>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Sets the codes of the residencies on the disk, and what the certificate says of time. The plan is
// never predicted slower than it was.
//
// A bound for plans without codes is none for plans with them: it is lowered to what it says of a
// machine on which everything is as much faster as any storage is smaller in its best code.
//
// REQUIRES: the plan is sound and has no codes on the disk yet, and its prediction is of this
// machine.
void choose_codes(const Program& program, const Machine& machine, Plan& plan);

// The same of what is evicted to the host and is no home. It takes less memory there, and the plan
// may be predicted slower than it was. No copy is quicker in a code of the processor's, so its
// bound stays. Where the device codes the plan is never predicted slower, and its bound is lowered.
//
// REQUIRES: the plan is sound. Codes that it has stay.
void choose_host_codes(const Program& program, const Machine& machine, Plan& plan);

// What the request asks for of these; of a plan with codes on the disk those stay.
void put_codes(const Program& program, const Machine& machine, const PlanRequest& request,
               Plan& plan);

}  // namespace fitstep

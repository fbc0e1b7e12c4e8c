// Codes: which of a plan's copies to tiers below are compressed, so that they move fewer bytes. The
// plan keeps room for the full size, so addresses, waits and proofs do not change; only the
// predicted time does.
//
//   to the host   to save memory: each copy with a code that makes it an eighth smaller. If the
//                 device has kernels for the code, to save time: all copies or none
//
//   to the disk   to save time, from the compressed sizes (program) and rates (machine):
//     1 each copy in the code with the fastest copy down and back
//     2 no copy in a code, if the step is then faster
//     3 single copies changed from code to no code or back, if the step is then faster
#pragma once

#include <cstdint>

#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

// Sets the codes of the residencies on the disk, and the times in the certificate. The plan is
// never predicted slower than before.
//
// The certificate's bound holds for plans without codes. So it becomes bound / best compression of
// any storage, or the time of all ops if that is more.
//
// REQUIRES: the plan is sound, has no codes on the disk yet, and was predicted for this machine.
void choose_codes(const Program& program, const Machine& machine, Plan& plan);

// The same for copies to the host, homes left out. If the CPU compresses, the copies take less host
// memory and the plan may be predicted slower; the bound stays, since no such copy is faster. If
// the device compresses, the plan is never predicted slower, and its bound is lowered.
//
// REQUIRES: the plan is sound. Codes that the plan has already stay.
void choose_host_codes(const Program& program, const Machine& machine, Plan& plan);

// Sets the codes that the request asks for. A plan that has codes on the disk keeps these.
void put_codes(const Program& program, const Machine& machine, const PlanRequest& request,
               Plan& plan);

}  // namespace fitstep

// The simplest valid plan of a program, made without the planner: every storage is kept at bytes of
// its own, ops run in program order.
//
//   address  | home 0 | home 1 | a0 | a1 | a2 | ... | scratch of whichever op runs |
#pragma once

#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"

namespace fitstep {

// One residency per storage that is used or persistent, in order of storages. If all storages are,
// a residency has its storage's index. Certified.
//
// REQUIRES: validate(program) holds.
Plan keep_all(const Program& program);

// Fills in hash, peak, height and capacity of a handmade plan, by looking at every byte at every
// position of every kernel.
//
// REQUIRES: only the compute lane has actions, all ids are in range, offsets are not negative.
void certify(const Program& program, Plan& plan);

// The limits that the certificate names.
Limits limits_of(const Plan& plan);

}  // namespace fitstep

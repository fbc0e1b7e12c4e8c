// The simplest valid plan of a program, for tests that need one: everything is kept, nothing shares
// a byte with anything else, ops run in program order. Made without the planner.
//
//   address  | home 0 | home 1 | a0 | a1 | a2 | ... | scratch of whichever op runs |
#pragma once

#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"

namespace fitstep {

// One residency per storage that is used or persistent, in order of storages; so where all are, a
// residency has its storage's index. Certified.
//
// REQUIRES: validate(program) holds.
Plan keep_all(const Program& program);

// Fills in the hash, peak, height and capacity of a plan that has been put together by hand, by
// looking at every byte at every position of every kernel.
//
// REQUIRES: only the compute lane has actions, all ids are in range, offsets are not negative.
void certify(const Program& program, Plan& plan);

// As much as the certificate says the plan was made for.
Limits limits_of(const Plan& plan);

}  // namespace fitstep

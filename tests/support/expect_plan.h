// Checks of every test on a plan: the verifier accepts the plan, or names the expected fault.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"

namespace fitstep {

// One line per fault: "overlap: residency 3 ..."
std::string describe(const std::vector<Fault>& faults);

// The parsed program; the test fails if the text is not valid.
Program program_of(std::string_view text);

// All ops, first to last.
std::vector<OpId> given_order(const Program& program);

void expect_valid(const Program& program, const Plan& plan);
void expect_valid(const Program& program, const Plan& plan, const Limits& limits);

// Every plan of the frontier, within its own height.
void expect_valid(const Program& program, const Frontier& frontier);

// The plan, if there is one, within this capacity of the device.
void expect_valid(const Program& program, const Outcome& outcome, int64_t capacity_bytes);

// Expects a first fault of this kind whose message contains `message`.
void expect_fault(const Program& program, const Plan& plan, FaultKind kind,
                  std::string_view message);
void expect_fault(const Program& program, const Plan& plan, const Limits& limits, FaultKind kind,
                  std::string_view message);

}  // namespace fitstep

// Checks of every test on a plan: the verifier accepts the plan, or names the expected fault.
#pragma once

#include <string>
#include <string_view>

#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"

namespace fitstep {

// One line per fault: "overlap: residency 3 ..."
std::string describe(const std::vector<Fault>& faults);

// The parsed program; the test fails if the text is not valid.
Program program_of(std::string_view text);

void expect_valid(const Program& program, const Plan& plan);
void expect_valid(const Program& program, const Plan& plan, const Limits& limits);

// Expects a first fault of this kind whose message contains `message`.
void expect_fault(const Program& program, const Plan& plan, FaultKind kind,
                  std::string_view message);
void expect_fault(const Program& program, const Plan& plan, const Limits& limits, FaultKind kind,
                  std::string_view message);

}  // namespace fitstep

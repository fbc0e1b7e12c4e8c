#include "tests/support/expect_plan.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/support/keep_all.h"

namespace fitstep {

std::string describe(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) {
    text += to_string(fault.kind);
    text += ": " + fault.message + "\n";
  }
  return text;
}

Program program_of(std::string_view text) {
  Result<Program> program = parse_program(text);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  return std::move(program).value();
}

std::vector<OpId> given_order(const Program& program) {
  std::vector<OpId> order;
  order.reserve(program.ops.size());
  for (size_t i = 0; i < program.ops.size(); ++i) order.emplace_back(i);
  return order;
}

void expect_valid(const Program& program, const Plan& plan, const Limits& limits) {
  EXPECT_EQ(describe(verify(program, plan, limits)), "");
}

void expect_valid(const Program& program, const Plan& plan) {
  expect_valid(program, plan, limits_of(plan));
}

void expect_valid(const Program& program, const Frontier& frontier) {
  for (const Point& point : frontier.points) {
    Limits limits = limits_of(point.plan);
    limits.capacity_bytes[0] = point.height_bytes;
    expect_valid(program, point.plan, limits);
  }
}

void expect_valid(const Program& program, const Outcome& outcome, int64_t capacity_bytes) {
  const auto* fits = std::get_if<Fits>(&outcome);
  if (fits == nullptr) return;
  Limits limits = limits_of(fits->plan);
  limits.capacity_bytes[0] = capacity_bytes;
  expect_valid(program, fits->plan, limits);
}

void expect_fault(const Program& program, const Plan& plan, const Limits& limits, FaultKind kind,
                  std::string_view message) {
  const std::vector<Fault> faults = verify(program, plan, limits);
  ASSERT_FALSE(faults.empty()) << "expected " << to_string(kind) << ": " << message;
  EXPECT_STREQ(to_string(faults.front().kind), to_string(kind)) << describe(faults);
  EXPECT_NE(faults.front().message.find(message), std::string::npos) << describe(faults);
}

void expect_fault(const Program& program, const Plan& plan, FaultKind kind,
                  std::string_view message) {
  expect_fault(program, plan, limits_of(plan), kind, message);
}

}  // namespace fitstep

// Optional ops: they need not run, but whoever reads what they make must find it.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"
#include "tests/programs/with_packs.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"
#include "tests/support/residency_ids.h"

namespace fitstep {
namespace {

// Residencies have the indices of their storages; pack is action 1, b action 4. What lived beyond
// an action that is taken out goes where `Plan` says.
Plan without_action(const Program& program, size_t position) {
  Plan plan = keep_all(program);
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  lane.erase(lane.begin() + static_cast<int64_t>(position));
  return plan;
}

TEST(VerifyOptional, AcceptsAPlanThatRunsThem) {
  const Program program = program_of(kPacked);
  expect_valid(program, keep_all(program));
}

TEST(VerifyOptional, AcceptsAPlanWithoutThem) {
  const Program program = program_of(kPacked);
  Plan plan = without_action(program, 1);
  // m, which is residency 2, is nobody's any more; those behind it move up.
  plan.residencies.erase(plan.residencies.begin() + 2);
  for (Action& action : plan.lane(Lane::Compute)) {
    for (auto* ids : {&action.run.reads, &action.run.writes, &action.releases}) {
      for (ResidencyId& it : *ids) {
        if (it.value() > 2) it = id(it.value() - 1);
      }
    }
  }
  certify(program, plan);
  expect_valid(program, plan);
}

TEST(VerifyOptional, AcceptsAReaderOfTheCode) {
  const Program program = program_of(kPacked);
  Plan plan = keep_all(program);
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  ASSERT_EQ(lane[1].releases, std::vector<ResidencyId>{id(2)});  // Nobody else reads m so far.
  ASSERT_EQ(lane[4].run.reads.front(), id(1));
  lane[1].releases = {id(1)};
  lane[4].run.form = 1;
  lane[4].run.reads.front() = id(2);
  for (ResidencyId& it : lane[4].releases) {
    if (it == id(1)) it = id(2);
  }
  certify(program, plan);
  expect_valid(program, plan);
}

TEST(VerifyOptional, ReportsACodeThatNobodyHasMade) {
  const Program program = program_of(kPacked);
  Plan plan = keep_all(program);
  std::vector<Action>& lane = plan.lane(Lane::Compute);
  lane[1].releases.clear();
  lane[4].run.form = 1;
  lane[4].run.reads.front() = id(2);
  lane[4].releases.push_back(id(2));
  std::swap(lane[1], lane[4]);  // b in front of pack.
  certify(program, plan);
  expect_fault(program, plan, FaultKind::NotResident, "which holds nothing yet");
}

TEST(VerifyOptional, DemandsAllOtherOps) {
  Program program = program_of(kPacked);
  program.ops[1].is_optional = false;
  program.ops[4].forms.resize(1);
  Plan plan = without_action(program, 1);
  plan.residencies.erase(plan.residencies.begin() + 2);
  for (Action& action : plan.lane(Lane::Compute)) {
    for (auto* ids : {&action.run.reads, &action.run.writes, &action.releases}) {
      for (ResidencyId& it : *ids) {
        if (it.value() > 2) it = id(it.value() - 1);
      }
    }
  }
  certify(program, plan);
  expect_fault(program, plan, FaultKind::MissingOp, "op 1 pack never runs");
}

}  // namespace
}  // namespace fitstep

// A program with a weight (storage 0), a moment (1), and an activation that has no home (2).
#include "fitstep/planner/search/moves.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {
namespace {

Program two_homes() {
  return program_of(R"(fitstep program 1
storage 0 "w" 4 parameter persistent start
storage 1 "m" 2 optimizer_state persistent start
storage 2 "a" 1 temporary
op 0 "f" matmul
form "default" pure reads 0.0 writes 2.1
op 1 "u" update
form "default" reads 0.0 1.0 2.1 writes 0.1 1.1
end calls 0 storages 3 ops 2
)");
}

Machine without_tiers_below() { return {.name = "unit", .tiers = {{.name = "device"}}}; }

Moves moves(const std::string& policy, const Machine& machine = unit_machine()) {
  return moves_of(two_homes(), machine, {.policy = policy});
}

struct Expected {
  const char* policy;
  const char* with_tiers;
  const char* without_tiers;
};

TEST(Moves, AreThoseOfThePolicyAndTheMachine) {
  for (const Expected& it : std::vector<Expected>{
           {"auto", "recompute + offload + homes off the device", "recompute"},
           {"offload", "offload + homes off the device", "keep"},
           {"recompute", "recompute", "recompute"},
           {"none", "keep", "keep"},
           {"recompute-sqrt", "recompute", "recompute"},
           {"recompute-cheap", "recompute", "recompute"},
           {"vdnn-all-p", "offload", "keep"},  // Published policies leave homes where they are.
       }) {
    EXPECT_EQ(describe(moves(it.policy)), it.with_tiers) << it.policy;
    EXPECT_EQ(describe(moves(it.policy, without_tiers_below())), it.without_tiers) << it.policy;
  }
}

TEST(Moves, MayTakeEveryHomeBelowWhereTheRequestPlacesNone) {
  EXPECT_EQ(moves("auto").is_mobile, (std::vector<char>{1, 1, 0}));
  EXPECT_TRUE(moves("recompute").is_mobile.empty());
  EXPECT_TRUE(moves("vdnn-all-p").is_mobile.empty());
}

TEST(Moves, MayTakeOnlyThoseHomesBelowThatTheRequestPlacesThere) {
  PlanRequest request{
      .homes = {{.storage = StorageId(0)}, {.storage = StorageId(1), .tier = kHostTier}}};
  EXPECT_EQ(moves_of(two_homes(), unit_machine(), request).is_mobile, (std::vector<char>{0, 1, 0}));
  request.homes[1].tier = kDeviceTier;
  const Moves none_below = moves_of(two_homes(), unit_machine(), request);
  EXPECT_TRUE(none_below.is_mobile.empty());
  EXPECT_EQ(describe(none_below), "recompute + offload");
}

// The disk has room for what is evicted, but homes below are on the host.
TEST(Moves, TakeNoHomesBelowWhereTheHostIsClosed) {
  Machine machine = unit_machine();
  machine.tiers[kHostTier.index()].is_closed = true;
  EXPECT_EQ(describe(moves("auto", machine)), "recompute + offload");
  EXPECT_TRUE(moves("auto", machine).is_mobile.empty());
  machine.tiers[kDiskTier.index()].is_closed = true;
  EXPECT_EQ(describe(moves("auto", machine)), "recompute");
}

TEST(Moves, TakeNoHomesBelowInAProgramWithoutHomes) {
  Program program = two_homes();
  for (Storage& storage : program.storages) storage.is_persistent = false;
  EXPECT_EQ(describe(moves_of(program, unit_machine(), {})), "recompute + offload");
}

}  // namespace
}  // namespace fitstep

#include "fitstep/simulate/longest.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"

namespace fitstep {
namespace {

TEST(CheckLongest, RefusesCopiesThatTimesCannotSay) {
  Program program = chain_program({.layers = 3});
  const Machine machine = unit_machine();  // 64 bytes take a minute.
  EXPECT_TRUE(check_longest(program, machine).has_value());
  program.storages.front().size_bytes = int64_t{1} << 40;  // 35,000 years.
  const Status status = check_longest(program, machine);
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(status.error().message.find("machine \"unit\" is too slow"), std::string::npos);
}

TEST(CheckLongest, DoesNotCountLinksToTiersWithoutRoom) {
  Program program = chain_program({.layers = 3});
  program.storages.front().size_bytes = int64_t{1} << 40;
  Machine machine = unit_machine();
  for (Tier& tier : machine.tiers) tier.is_closed = true;
  EXPECT_TRUE(check_longest(program, machine).has_value());
}

TEST(CheckLongest, RefusesOpsThatTimesCannotSay) {
  Program program = chain_program({.layers = 3});
  for (Op& op : program.ops) op.forms.front().time_ps = int64_t{1} << 61;
  EXPECT_FALSE(check_longest(program, {.name = "one", .tiers = {{.name = "device"}}}).has_value());
}

}  // namespace
}  // namespace fitstep

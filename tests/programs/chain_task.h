// A fixture: a chain on a device and a host, and the task to search for its plans.
#pragma once

#include <gtest/gtest.h>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/support/expect_plan.h"

namespace fitstep {

class ChainTask : public testing::Test {
 protected:
  // A copy of an activation takes one second each way, like an op.
  explicit ChainTask(const ChainOptions& options) : program_(chain_program(options)) {
    machine_.tiers.resize(2);
    machine_.links.resize(1);
    for (Rate* rate : {&machine_.links[0].evict, &machine_.links[0].prefetch}) {
      rate->alone_bytes_per_s = rate->both_bytes_per_s = options.unit_bytes;
    }
  }

  const Program program_;
  Machine machine_ = unit_machine();
  const Values values_{program_, given_order(program_)};
  Task task_{.program = program_,
             .machine = machine_,
             .values = values_,
             .request = {},
             .homes = make_homes(program_, {}),
             .culprits = {}};
};

}  // namespace fitstep

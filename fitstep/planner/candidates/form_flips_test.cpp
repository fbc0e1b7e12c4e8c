#include "fitstep/planner/candidates/form_flips.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/candidates/candidate.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"

namespace fitstep {
namespace {

// "use", which cannot run again, reads the 4 bytes of "whole", or takes a picosecond more and reads
// the byte of "part". Between them lie the 8 bytes of "large".
constexpr const char* kText = R"(fitstep program 1
name "forms"
call 0 "call"
storage 0 "whole" 4 temporary
storage 1 "part" 1 temporary
storage 2 "large" 8 temporary
storage 3 "end" 1 temporary
op 0 "make" other
form "default" call 0 time 1 pure writes 0.1 1.1
op 1 "grow" other
form "default" call 0 time 1 pure writes 2.1
op 2 "shrink" other
form "default" call 0 time 1 pure reads 2.1 writes 3.1
op 3 "use" other
form "default" call 0 time 1 reads 0.1 3.1 writes 3.2
form "of part" call 0 time 2 reads 1.1 3.1 writes 3.2
end calls 1 storages 4 ops 4
)";

class OneOpWithForms : public testing::Test {
 protected:
  OneOpWithForms() = default;

  const Program program_ = *parse_program(kText);
  const Machine machine_ = unit_machine();
  const Values values_{program_, make_order(program_)};
  const Task task_{.program = program_,
                   .machine = machine_,
                   .values = values_,
                   .request = {},
                   .homes = make_homes(program_, {}),
                   .culprits = {}};
};

TEST_F(OneOpWithForms, HasTwoSelectionsThatNoneBeats) {
  const FormFlips flips(task_);
  ASSERT_EQ(flips.best().size(), 2U);
  const auto fast = schedule_candidate(task_, flips.best()[0]);
  const auto small = schedule_candidate(task_, flips.best()[1]);
  ASSERT_TRUE(fast.has_value() && small.has_value());
  EXPECT_EQ(fast.value_or(Candidate{}).bytes, 4 + 8 + 1);
  EXPECT_EQ(fast.value_or(Candidate{}).predicted_ps, 4);
  EXPECT_EQ(small.value_or(Candidate{}).bytes, 1 + 8 + 1);
  EXPECT_EQ(small.value_or(Candidate{}).predicted_ps, 5);
}

TEST_F(OneOpWithForms, IsFlippedThereAndBack) {
  const FormFlips flips(task_);
  const std::vector<Selection> there = flips.around(flips.best().front());
  ASSERT_EQ(there.size(), 1U);
  EXPECT_EQ(there.front().first_form, flips.best().back().first_form);
  const std::vector<Selection> back = flips.around(there.front());
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back.front().first_form, (std::vector<int8_t>{0, 0, 0, 0}));
}

TEST_F(OneOpWithForms, HasOneSelectionWhereTriesAreTooFew) {
  Task scarce = task_;
  scarce.request.effort = 0;
  const FormFlips flips(scarce);
  EXPECT_EQ(flips.best().size(), 1U);
  EXPECT_TRUE(flips.around(flips.best().front()).empty());
}

}  // namespace
}  // namespace fitstep

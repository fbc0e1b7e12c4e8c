#include "fitstep/planner/schedule/space.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "fitstep/base/result.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/schedule/scheduler.h"
#include "fitstep/planner/schedule/selection.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "fitstep/program/text.h"

namespace fitstep {
namespace {

// A value of 4 bytes; a value of 3 bytes may take its address, and another one of 3 bytes is made
// in the same op. `last` reads the named values and writes as many bytes as asked.
std::string taking_program(const std::string& last, int64_t end_bytes) {
  return "fitstep program 1\n"
         "name \"taking\"\n"
         "call 0 \"call\"\n"
         "storage 0 \"large\" 4 temporary\n"
         "storage 1 \"taker\" 3 temporary\n"
         "storage 2 \"other\" 3 temporary\n"
         "storage 3 \"end\" " +
         std::to_string(end_bytes) +
         " temporary\n"
         "op 0 \"make\" other\n"
         "form \"default\" call 0 time 1 pure writes 0.1\n"
         "op 1 \"take\" other\n"
         "form \"default\" call 0 time 1 pure reads 0.1 writes 1.1<0 2.1\n"
         "op 2 \"last\" other\n"
         "form \"default\" call 0 time 1 pure reads " +
         last +
         " writes 3.1\n"
         "end calls 1 storages 4 ops 3\n";
}

Space space_of(const std::string& text) {
  const Result<Program> program = parse_program(text);
  EXPECT_TRUE(program.has_value()) << program.error().message;
  const Values values(*program, make_order(*program));
  const Schedule schedule = make_schedule(values, keep_all(values)).value_or(Schedule{});
  EXPECT_FALSE(schedule.instances.empty());
  return make_space(values, schedule);
}

TEST(Space, LetsAnOutputLieWhereALargerInputEnds) {
  EXPECT_EQ(space_of(taking_program("2.1", 6)).peak_bytes,
            3 + 6);  // Without taking the address: 4 + 3 + 3 while it is made.
}

TEST(Space, KeepsThemApartIfTheRestOfTheInputWouldNeedMoreBytes) {
  EXPECT_EQ(space_of(taking_program("1.1 2.1", 6)).peak_bytes, 3 + 3 + 6);  // Taking it: 4 + 3 + 6.
}

// In the last op 3 + 3 + 1 bytes of storages are live, in blocks of 4 + 3 + 1: no layout is lower
// than the blocks' peak, and the verifier counts storages.
TEST(Space, CountsTheRestOfTheInputForLayoutsAlone) {
  const Space space = space_of(taking_program("1.1 2.1", 1));
  EXPECT_EQ(space.peak_bytes, 4 + 3 + 1);
  EXPECT_EQ(space.storages_peak_bytes, 4 + 3);  // While the two are made from the input.
}

}  // namespace
}  // namespace fitstep

#include "fitstep/planner/offload/evictions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/offload/gaps.h"

namespace fitstep {
namespace {

// Two gaps across instance 1, of 4 and of 2 bytes; the load there is 1 byte above the limit.
class Evictions : public testing::Test {
 protected:
  Evictions() = default;

  const std::vector<Gap> gaps_ = {{.stay = 0, .before = 0, .after = 2, .size_bytes = 4},
                                  {.stay = 1, .before = 0, .after = 2, .size_bytes = 2}};
  const std::vector<int64_t> load_bytes_ = {6, 9, 6};
  const std::vector<int64_t> start_ps_ = {0, 1, 2, 3};
  const Machine machine_ = unit_machine();
  const EvictionTask task_{.gaps = gaps_,
                           .load_bytes = load_bytes_,
                           .start_ps = start_ps_,
                           .limit_bytes = 8,
                           .room = {.host_bytes = 4},
                           .machine = machine_};
};

TEST_F(Evictions, CoverWhatIsTooMuch) {
  EXPECT_EQ(choose_evictions(task_, EvictionRule::LargestBytes), std::vector<int32_t>{0});
  EXPECT_EQ(choose_evictions(task_, EvictionRule::FarthestUse), std::vector<int32_t>{0});
}

TEST_F(Evictions, AreNothingWhereTheTierBelowIsTooSmall) {
  EvictionTask task = task_;
  task.room.host_bytes = 3;
  task.limit_bytes = 6;  // 3 bytes are too much: neither gap alone is enough and has room.
  EXPECT_EQ(choose_evictions(task, EvictionRule::LargestBytes), std::nullopt);
}

}  // namespace
}  // namespace fitstep

#include "fitstep/planner/bounds/chain_charge.h"

#include <gtest/gtest.h>

#include <memory>
#include <string_view>

#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds/needs.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

// A program in its given order, and the charge of a stretch of it.
class ChainChargeTest : public ::testing::Test {
 protected:
  void set_program(std::string_view text) {
    program_ = program_of(text);
    values_ = std::make_unique<Values>(program_, given_order(program_));
    needs_ = std::make_unique<Needs>(*values_, unit_machine());
  }
  ChainCharge charge(const Stretch& stretch, bool may_recompute = true) const {
    return ChainCharge(*needs_, stretch, may_recompute);
  }

  Program program_;
  std::unique_ptr<Values> values_;
  std::unique_ptr<Needs> needs_;
};

// x is outside. m (2 s, 6 bytes) makes a, n (1 s) makes b (4 bytes) of a; then a is dead, b is idle
// at the wide op and needed by the last.
constexpr std::string_view kIdleChain = R"(fitstep program 1
storage 0 "x" 1 input start
storage 1 "a" 6 temporary
storage 2 "b" 4 temporary
storage 3 "wide" 9 temporary
storage 4 "end" 1 output
op 0 "m" matmul
form "default" time 2000000000000 pure reads 0.0 writes 1.1
op 1 "n" matmul
form "default" time 1000000000000 pure reads 1.1 writes 2.1
op 2 "wide" matmul
form "default" time 1000000000000 writes 3.1
op 3 "end" matmul
form "default" time 1000000000000 reads 2.1 writes 4.1
end calls 0 storages 5 ops 4
)";

TEST_F(ChainChargeTest, DropsWhereRunsAreCheaperThanHolding) {
  set_program(kIdleChain);
  ChainCharge chain = charge({.begin = 0, .cut = 2, .end = 4});
  EXPECT_EQ(chain.needed_bytes(), 4);
  EXPECT_EQ(chain.fixed_bytes(), 0);
  EXPECT_DOUBLE_EQ(chain.runs_ps(), 3 * kSecond);
  // At 0.1 s per byte b is held: 0.4 s. At 10 s both ops run again: 3 s.
  EXPECT_DOUBLE_EQ(chain.at_price(0.1 * kSecond).sum_ps, 0.4 * kSecond);
  EXPECT_DOUBLE_EQ(chain.at_price(10 * kSecond).sum_ps, 3 * kSecond);
}

TEST_F(ChainChargeTest, HoldsUntilBothRunsTogetherAreCheaper) {
  set_program(kIdleChain);
  // Holding b costs 4 bytes, both runs 3 s: equal at 0.75 s per byte. Holding a instead of b takes
  // more bytes and a run, so it never pays.
  ChainCharge chain = charge({.begin = 0, .cut = 2, .end = 4});
  EXPECT_DOUBLE_EQ(chain.at_price(0.5 * kSecond).sum_ps, 2 * kSecond);
  EXPECT_DOUBLE_EQ(chain.at_price(0.75 * kSecond).sum_ps, 3 * kSecond);
}

TEST_F(ChainChargeTest, ChargesASharedRunOnce) {
  set_program(R"(fitstep program 1
storage 0 "x" 1 input start
storage 1 "a" 2 temporary
storage 2 "b" 4 temporary
storage 3 "c" 4 temporary
storage 4 "wide" 9 temporary
storage 5 "end" 1 output
op 0 "m" matmul
form "default" time 5000000000000 pure reads 0.0 writes 1.1
op 1 "b" matmul
form "default" time 1000000000000 pure reads 1.1 writes 2.1
op 2 "c" matmul
form "default" time 1000000000000 pure reads 1.1 writes 3.1
op 3 "wide" matmul
form "default" time 1000000000000 writes 4.1
op 4 "end" matmul
form "default" time 1000000000000 reads 2.1 3.1 writes 5.1
end calls 0 storages 6 ops 5
)");
  ChainCharge chain = charge({.begin = 0, .cut = 3, .end = 5});
  // At a high price b, c and (once) m run: 1 + 1 + 5. At 1 s per byte a is held: 1 + 1 + 2.
  EXPECT_DOUBLE_EQ(chain.at_price(100 * kSecond).sum_ps, 7 * kSecond);
  EXPECT_DOUBLE_EQ(chain.at_price(1 * kSecond).sum_ps, 4 * kSecond);
}

TEST_F(ChainChargeTest, HasToHoldWhatNoOpCanRecompute) {
  set_program(kIdleChain);
  const ChainCharge chain = charge({.begin = 0, .cut = 2, .end = 4}, false);
  EXPECT_EQ(chain.fixed_bytes(), 4);
  EXPECT_TRUE(chain.likely_prices(4).empty());
}

TEST_F(ChainChargeTest, LeavesOutValuesOfOtherStretches) {
  set_program(kIdleChain);
  EXPECT_EQ(charge({.begin = 2, .cut = 2, .end = 4}).needed_bytes(), 0);  // Made before.
  EXPECT_EQ(charge({.begin = 0, .cut = 2, .end = 2}).needed_bytes(), 0);  // Needed after.
  // Values made before the stretch cost nothing: only n runs again.
  EXPECT_DOUBLE_EQ(charge({.begin = 1, .cut = 2, .end = 4}).at_price(10 * kSecond).sum_ps, kSecond);
}

TEST(Prices, AreRoundedToTheSideThatIsAsked) {
  EXPECT_DOUBLE_EQ(price_down(0.5, 3), 1);
  EXPECT_DOUBLE_EQ(price_up(0.5, 3), 2);
  EXPECT_DOUBLE_EQ(price_down(2, 3), 6);
  EXPECT_DOUBLE_EQ(price_up(2, 3), 6);
  // The double next to 0.1 is above it, so ten of them are above 1.
  EXPECT_DOUBLE_EQ(price_down(0.1, 10), 1);
  EXPECT_DOUBLE_EQ(price_up(0.1, 10), 2);
}

}  // namespace
}  // namespace fitstep

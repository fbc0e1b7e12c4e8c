#include "fitstep/planner/recompute/selector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/planner/recompute/phase.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

struct SelectorCase {
  explicit SelectorCase(Program of)
      : program(std::move(of)),
        values(program, given_order(program)),
        live_bytes(kept_bytes(values)) {}

  static std::vector<int64_t> kept_bytes(const Values& values) {
    const std::optional<Schedule> schedule = make_schedule(values, keep_all(values));
    return schedule ? make_space(values, *schedule).live_bytes : std::vector<int64_t>();
  }

  Program program;
  Values values;
  std::vector<int64_t> live_bytes;
};

struct Measured {
  int64_t units = 0;
  int32_t extra = 0;
};

Measured measure(const SelectorCase& of, const Selection& selection) {
  const std::optional<Schedule> schedule = make_schedule(of.values, selection);
  if (!schedule) return {};
  return {.units = make_space(of.values, *schedule).peak_bytes / kUnitBytes,
          .extra = schedule->recompute_count};
}

std::string dropped_names(const Values& values, const Selection& selection) {
  std::string names;
  for (size_t i = 0; i < values.size(); ++i) {
    if (selection.scope_of[i] == Selection::kKeep || values[ValueId(i)].uses.size() < 2) continue;
    names += values.storage(values[ValueId(i)].storage).name + " ";
  }
  return names;
}

// Activations that are saved, by tick: one more after each of load, f1, .. f8, so 9 at tick 8. The
// loss adds none, and from b8 on they fall. The turn is the first of the highest ticks.
//
//   tick         0     1 ..  7     8     9    10 ..
//                load  f1    f7    f8   loss  b8
//   saved        1     2     8     9     9     8
TEST(FindPhases, FindsTheTurnOfAChain) {
  const SelectorCase chain(chain_program({.layers = 8}));
  const std::vector<Phase> phases = find_phases(chain.values);
  ASSERT_EQ(phases.size(), 1U);
  EXPECT_EQ(phases[0].begin, 0);
  EXPECT_EQ(phases[0].turn, 8);
  EXPECT_EQ(phases[0].end, 18);  // load, 8 f, loss, 8 b.
  // Cuts rise through the forward part, their backward parts fall through the backward part.
  EXPECT_TRUE(std::ranges::is_sorted(phases[0].cuts));
  EXPECT_TRUE(std::ranges::is_sorted(phases[0].backward, std::greater()));
  EXPECT_EQ(phases[0].backward.back(), phases[0].turn + 1);
}

// 64 equal layers: a0 to a64 and two gradients, 67 units, with everything kept. Dropping all values
// gains nothing. Keeping every 8th value takes 18 units at most: a0, 7 kept ones, 8 of the segment
// that runs backward, two gradients. In 8 segments at most 7 ops run once more.
TEST(BySegments, KeepsEveryFewthCutOfAUniformChain) {
  const SelectorCase chain(chain_program({.layers = 64}));
  const Selector selector(chain.values, chain.live_bytes);
  EXPECT_EQ(measure(chain, keep_all(chain.values)).units, 67);
  bool has_found = false;
  for (int64_t target = 18; target >= 14; --target) {
    const Measured found = measure(chain, selector.by_segments(target * kUnitBytes));
    has_found = has_found || (found.units <= 1 + 7 + 8 + 2 && found.extra <= 8 * 7);
  }
  EXPECT_TRUE(has_found);
}

TEST(BySegments, TakesLessBytesForMoreTimeAsTheTargetFalls) {
  const SelectorCase chain(chain_program({.layers = 40}));
  const Selector selector(chain.values, chain.live_bytes);
  int32_t last_extra = 0;
  for (const int64_t target : {43, 30, 20, 14, 11, 8}) {
    const Measured found = measure(chain, selector.by_segments(target * kUnitBytes));
    EXPECT_LE(found.units, target + 4) << target;  // 4: bytes needed only while recomputing.
    EXPECT_GE(found.extra, last_extra) << target;
    last_extra = found.extra;
  }
  EXPECT_GT(last_extra, 40);  // At the end some layers run three times.
}

// The 64 narrow cuts are all alike, so every 8th is kept, and with it the value made before it: a7,
// a15, .. a63, and a64 behind the last. The first segment drops a1 to a6 (a0 cannot be recomputed),
// the 7 others 7 values each; every dropped value is recomputed once. Most is live at b63: a0, the
// 7 kept values a7 .. a55, a56 to a63 and two gradients.
TEST(EverySqrtCut, MakesAboutEveryLayerAgainOnce) {
  const SelectorCase chain(chain_program({.layers = 64}));
  const Selector selector(chain.values, chain.live_bytes);
  const Measured found = measure(chain, selector.every_sqrt_cut());
  EXPECT_EQ(found.units, 1 + 7 + 8 + 2);
  EXPECT_EQ(found.extra, 6 + 7 * 7);
}

// Each layer: a matmul of 8 s, then a gelu of 1 s; the backward op reads both results. At a price
// between 1 s and 8 s only the results of gelu are dropped.
//
//   m1 e1 m2 e2 m3 e3 loss | b3 b2 b1
TEST(ByPrice, DropsCheapValuesAndKeepsExpensiveOnes) {
  const SelectorCase net(program_of(R"(fitstep program 1
storage 0 "x" 64 input start
storage 1 "m1" 64 temporary
storage 2 "e1" 64 temporary
storage 3 "m2" 64 temporary
storage 4 "e2" 64 temporary
storage 5 "m3" 64 temporary
storage 6 "e3" 64 temporary
storage 7 "g3" 64 temporary
storage 8 "g2" 64 temporary
storage 9 "g1" 64 temporary
storage 10 "y" 64 output
op 0 "m1" matmul
form "default" time 8000 pure reads 0.0 writes 1.1
op 1 "e1" activation
form "default" time 1000 pure reads 1.1 writes 2.1
op 2 "m2" matmul
form "default" time 8000 pure reads 2.1 writes 3.1
op 3 "e2" activation
form "default" time 1000 pure reads 3.1 writes 4.1
op 4 "m3" matmul
form "default" time 8000 pure reads 4.1 writes 5.1
op 5 "e3" activation
form "default" time 1000 pure reads 5.1 writes 6.1
op 6 "loss" reduction
form "default" time 1000 pure reads 6.1 writes 7.1
op 7 "b3" matmul
form "default" time 8000 pure reads 5.1 6.1 7.1 writes 8.1
op 8 "b2" matmul
form "default" time 8000 pure reads 3.1 4.1 8.1 writes 9.1
op 9 "b1" matmul
form "default" time 8000 reads 1.1 2.1 9.1 writes 10.1
end calls 0 storages 11 ops 10
)"));
  const Selector selector(net.values, net.live_bytes);
  ASSERT_TRUE(selector.has_phases());
  const Selection cheap = selector.by_price(1000.0 / 64 + 1);
  EXPECT_EQ(dropped_names(net.values, cheap), "e1 e2 e3 ");
  const auto schedule = make_schedule(net.values, cheap);
  ASSERT_TRUE(schedule.has_value());
  // e1 and e2. The loss has just read e3 when b3 needs it, so it is still there.
  EXPECT_EQ(schedule->recompute_count, 2);
  EXPECT_EQ(schedule->recompute_ps, 2 * 1000);
}

}  // namespace
}  // namespace fitstep

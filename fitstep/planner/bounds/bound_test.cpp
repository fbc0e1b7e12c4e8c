#include "fitstep/planner/bounds/bound.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/programs/chain_program.h"
#include "tests/programs/one_span.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

// 8 layers of 1 s: 18 ops. Keep-all peaks at 11 units while b8 runs. With 9 units two of the idle
// activations have to be recomputed, 1 s each.
TEST(TimeBound, ChargesTheCheapestBytesThatDoNotFit) {
  const Program program = chain_program({.layers = 8});
  const Values values(program, given_order(program));
  const Homes homes = make_homes(program, {});
  EXPECT_EQ(time_bound(values, lone_device(), homes, int64_t{11} * 64).ps, 18 * kSecond);
  EXPECT_EQ(time_bound(values, lone_device(), homes, int64_t{9} * 64).ps, 20 * kSecond);
  EXPECT_NE(time_bound(values, lone_device(), homes, int64_t{9} * 64).name.find("memory at tick"),
            std::string::npos);
}

TEST(TimeBound, GrowsWhileTheCapacityFalls) {
  const Program program = chain_program({.layers = 20});
  const Values values(program, given_order(program));
  const Homes homes = make_homes(program, {});
  int64_t last_ps = 0;
  for (int64_t units = 23; units >= 4; --units) {
    const int64_t ps = time_bound(values, lone_device(), homes, units * 64).ps;
    EXPECT_GE(ps, last_ps);
    last_ps = ps;
  }
}

// `f` takes 1 s with 6 bytes of scratch beside its result of 4, or 3 s without.
TEST(TimeBound, LeavesOutFormsThatHaveNoRoomByThemselves) {
  const Program program = program_of(R"(fitstep program 1
storage 0 "a" 4 temporary
storage 1 "end" 1 output
op 0 "f" convolution
form "fast" time 1000000000000 pure writes 0.1 requests 6@0-1
form "small" time 3000000000000 pure writes 0.1
op 1 "end" matmul
form "default" time 1000000000000 reads 0.1 writes 1.1
end calls 0 storages 2 ops 2
)");
  const Values values(program, given_order(program));
  const Homes homes = make_homes(program, {});
  EXPECT_EQ(time_bound(values, lone_device(), homes, 10).ps, 2 * kSecond);
  EXPECT_EQ(time_bound(values, lone_device(), homes, 9).ps, 4 * kSecond);
  EXPECT_EQ(time_bound(values, lone_device(), homes, 9).name,
            "every op once (any order of ops, moves: recompute)");
}

// With room for 8, two bytes of `a` leave after op 0 and come back before op 2, on links of 1 byte
// per second.
TEST(TimeBound, CountsCopiesOnBothSidesOfACut) {
  const Program program = program_of(kOneSpan);
  const Values values(program, given_order(program));
  const Homes homes = make_homes(program, {});
  const Moves offload{.recompute = false, .offload = true};
  EXPECT_EQ(time_bound(values, unit_machine(), homes, 10, offload).ps, 3 * kSecond);
  // 1 s for a, 2 s of evict, 1 s for wide, 2 s of prefetch, 1 s for the end.
  const TimeBound bound = time_bound(values, unit_machine(), homes, 8, offload);
  EXPECT_EQ(bound.ps, 7 * kSecond);
  EXPECT_EQ(bound.name, "waits for copies (this order of ops, moves: offload)");
  // Recomputing a costs 1 s; half of a does not fit.
  EXPECT_EQ(time_bound(values, unit_machine(), homes, 8).ps, kSecond * 7 / 2);
}

TEST(TimeBound, TakesTheCheaperOfCopyingAndRecomputing) {
  const Program program = program_of(kOneSpan);
  const Values values(program, given_order(program));
  const Homes homes = make_homes(program, {});
  const Moves both{.recompute = true, .offload = true};
  const TimeBound bound = time_bound(values, unit_machine(), homes, 8, both);
  // y bytes away: max(1, y) + 1 + max((2 - y) / 4, y) + 1, least where y is 0.4.
  EXPECT_NEAR(static_cast<double>(bound.ps), 3.4e12, 2);
  EXPECT_EQ(bound.name, "memory at tick 1 (this order of ops, moves: recompute + offload)");
  EXPECT_EQ(bound.tick, 1);
}

// `wide` takes 1 s with 4 bytes of scratch; then a has to go as above. Without scratch it is
// slower.
TEST(TimeBound, TakesTheCheaperFormOfTheOpAtACut) {
  const auto bound_ps = [](int64_t slow_ps) {
    const Program program = program_of(fmt::format(R"(fitstep program 1
storage 0 "a" 4 temporary
storage 1 "wide" 2 temporary
storage 2 "end" 1 output
op 0 "a" matmul
form "default" time 1000000000000 pure writes 0.1
op 1 "wide" matmul
form "fast" time 1000000000000 writes 1.1 requests 4@0-1
form "slow" time {} writes 1.1
op 2 "end" matmul
form "default" time 1000000000000 reads 0.1 writes 2.1
end calls 0 storages 3 ops 3
)",
                                                   slow_ps));
    const Values values(program, given_order(program));
    const Moves both{.recompute = true, .offload = true};
    return static_cast<double>(
        time_bound(values, unit_machine(), make_homes(program, {}), 8, both).ps);
  };
  EXPECT_NEAR(bound_ps(9'000'000'000'000), 3.4 * kSecond, 2);
  EXPECT_NEAR(bound_ps(1'200'000'000'000), 3.2 * kSecond, 2);
}

// b and c take 3 s each, or 1 s each if they read a code. One run of 1 s makes the code for both.
TEST(TimeBound, CountsRunsOfOptionalOpsThatFormsNeed) {
  constexpr std::string_view kTwoReaders = R"(fitstep program 1
storage 0 "y" 4 temporary
storage 1 "code" 1 temporary
storage 2 "b" 1 output
storage 3 "c" 1 output
op 0 "y" matmul
form "default" time 1000000000000 writes 0.1
op 1 "pack" copy optional
form "default" time 1000000000000 pure reads 0.1 writes 1.1
op 2 "b" matmul
form "default" time 3000000000000 reads 0.1 writes 2.1
form "from code" time 1000000000000 reads 1.1 writes 2.1
op 3 "c" matmul
form "default" time {} reads 0.1 writes 3.1
form "from code" time 1000000000000 reads 1.1 writes 3.1
end calls 0 storages 4 ops 4
)";
  const auto bound_ps = [&](int64_t whole_ps) {
    const Program program = program_of(fmt::format(fmt::runtime(kTwoReaders), whole_ps));
    const Values values(program, given_order(program));
    return time_bound(values, lone_device(), make_homes(program, {}), 100).ps;
  };
  EXPECT_EQ(bound_ps(3 * kSecond), 4 * kSecond);                        // y, the code, b, c.
  EXPECT_EQ(bound_ps(kSecond * 5 / 4), 3 * kSecond + kSecond * 3 / 4);  // Half of it, a quarter.
}

TEST(TimeBound, KnowsWhatTheHostCannotHold) {
  const Program program = program_of(kOneSpan);
  const Values values(program, given_order(program));
  const Homes homes = make_homes(program, {});
  const Moves both{.recompute = true, .offload = true};
  Machine machine = unit_machine();
  machine.links[0].evict.alone_bytes_per_s = kPicosecondsPerSecond;
  machine.links[0].prefetch.alone_bytes_per_s = kPicosecondsPerSecond;
  const auto bound_ps = [&] {
    return static_cast<double>(time_bound(values, machine, homes, 8, both).ps);
  };
  EXPECT_NEAR(bound_ps(), 3e12, 3);  // Two bytes go and come, 1 ps each.
  // One byte on the host; of the other, z bytes come back from a disk with 1 byte per second, while
  // the rest is recomputed: max(z, (1 - z) / 4), least where z is 0.2.
  machine.tiers[1].capacity_bytes = 1;
  EXPECT_NEAR(bound_ps(), 3.2e12, 3);
  // Nothing on the host, so z of both bytes come back from the disk: max(z, (2 - z) / 4).
  machine.tiers[1].is_closed = true;
  EXPECT_NEAR(bound_ps(), 3.4e12, 3);
  machine.tiers[1].is_closed = false;
  machine.tiers.resize(2);
  machine.links.resize(1);
  EXPECT_NEAR(bound_ps(), 3.25e12, 3);
}

// Ten ops of 1 s; op 0 needs all 6 bytes, op 5 alone a weight of 4. If its home is on the device
// the weight has to leave and to come back; with its home on the host it may stay there until op 5.
TEST(TimeBound, LetsMobileStoragesWaitWhereTheyAreNext) {
  std::string text = "fitstep program 1\nstorage 0 \"w\" 4 parameter persistent start\n";
  for (int i = 0; i < 10; ++i) {
    const int size = i == 0 ? 6 : 1;
    text += fmt::format("storage {} \"v{}\" {} temporary\n", i + 1, i, size);
  }
  for (int i = 0; i < 10; ++i) {
    text +=
        fmt::format("op {} \"op{}\" matmul\nform \"default\" time 1000000000000{} writes {}.1\n", i,
                    i, i == 5 ? " reads 0.0" : "", i + 1);
  }
  const Program program = program_of(text + "end calls 0 storages 11 ops 10\n");
  const Values values(program, given_order(program));
  const Homes homes = make_homes(program, {});
  Moves moves{.recompute = false, .offload = true, .is_mobile = std::vector<char>(11, 0)};
  moves.is_mobile[0] = 1;
  EXPECT_EQ(time_bound(values, unit_machine(), homes, 6, moves).ps, 10 * kPicosecondsPerSecond);
  EXPECT_EQ(time_bound(values, unit_machine(), homes, 6, moves).name,
            "every op once (any order of ops, moves: offload + homes off the device)");
}

TEST(TimeBound, NeedsALinkForOffload) {
  const Program program = program_of(kOneSpan);
  const Values values(program, given_order(program));
  const Homes homes = make_homes(program, {});
  const Moves both{.recompute = true, .offload = true};
  EXPECT_EQ(time_bound(values, lone_device(), homes, 8, both).ps, kPicosecondsPerSecond * 7 / 2);
}

// Chains in a row, one per micro-batch: the recompute times of all chains add up.
TEST(TimeBound, AddsUpOverMicroBatches) {
  const auto bound_of = [](int32_t batches) {
    Program program = chain_program({.layers = 8});
    const Program one = program;
    for (int32_t i = 1; i < batches; ++i) {
      for (Op op : one.ops) {
        const auto shift = static_cast<int64_t>(one.storages.size()) * i;
        for (Read& read : op.forms[0].reads) {
          read.storage = StorageId(read.storage.value() + shift);
        }
        for (Write& write : op.forms[0].writes) {
          write.storage = StorageId(write.storage.value() + shift);
        }
        program.ops.push_back(op);
      }
      program.storages.insert(program.storages.end(), one.storages.begin(), one.storages.end());
    }
    const Values values(program, given_order(program));
    return time_bound(values, lone_device(), make_homes(program, {}), int64_t{9} * 64).ps;
  };
  EXPECT_EQ(bound_of(1), 20 * kPicosecondsPerSecond);
  EXPECT_EQ(bound_of(3), 60 * kPicosecondsPerSecond);
}

}  // namespace
}  // namespace fitstep

// Plans full of impossible numbers: the verifier reports faults and does not crash.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"
#include "tests/programs/random_program.h"
#include "tests/support/offload_gaps.h"

namespace fitstep {
namespace {

// Numbers at the edges of what the fields can hold, and some that mean something.
int64_t noise(std::mt19937_64& dice) {
  constexpr std::array<int64_t, 12> kNumbers = {-1,
                                                0,
                                                1,
                                                2,
                                                3,
                                                7,
                                                64,
                                                1000,
                                                1 << 30,
                                                int64_t{1} << 61,
                                                std::numeric_limits<int64_t>::min(),
                                                std::numeric_limits<int64_t>::max()};
  return kNumbers[dice() % kNumbers.size()];
}

int32_t small_noise(std::mt19937_64& dice) { return static_cast<int32_t>(noise(dice)); }

void spoil(Plan& plan, std::mt19937_64& dice) {
  Residency& residency = plan.residencies[dice() % plan.residencies.size()];
  std::vector<Action>& lane = plan.lanes[dice() % kLaneCount];
  if (lane.empty()) lane.push_back(plan.lane(Lane::Compute).front());
  Action& action = lane[dice() % lane.size()];
  const ResidencyId id(small_noise(dice));
  switch (dice() % 10) {
    case 0:
      residency.storage = StorageId(small_noise(dice));
      break;
    case 1:
      residency.tier = TierId(small_noise(dice));
      break;
    case 2:
      residency.offset_bytes = noise(dice);
      break;
    case 3:
      residency.size_bytes = noise(dice);
      break;
    case 4:
      action.run.op = OpId(small_noise(dice));
      break;
    case 5:
      action.run.form = small_noise(dice);
      break;
    case 6:
      action.run.reads.push_back(id);
      action.run.writes.assign(1, id);
      break;
    case 7:
      action.copy = {id, ResidencyId(small_noise(dice))};
      action.kind = Action::Kind::Copy;
      break;
    case 8:
      action.waits.push_back({Lane{static_cast<int>(dice() % kLaneCount)}, small_noise(dice)});
      break;
    default:
      action.releases.push_back(id);
      action.run.request_offset_bytes.assign(dice() % 3, noise(dice));
  }
}

TEST(VerifyNoise, IsReportedWithoutACrash) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 dice(seed);
    const Program program = random_program(seed, {.layers = 3, .most_bytes = 90});
    const Plan plan = offload_gaps(program, GapsTo::Both);
    for (int i = 0; i < 200; ++i) {
      Plan spoilt = plan;
      for (uint64_t count = dice() % 4 + 1; count > 0; --count) spoil(spoilt, dice);
      const std::vector<Fault> faults =
          verify(program, spoilt, {.capacity_bytes = {noise(dice), noise(dice), noise(dice)}});
      EXPECT_FALSE(faults.empty());
      EXPECT_LE(faults.size(), kMaxFaults);
    }
  }
}

}  // namespace
}  // namespace fitstep

// The verifier against bytes: good plans are corrupted in every field, each corruption is run on
// real bytes (tests/support/byte_run.h), and whatever does damage there must have been reported.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/program.h"
#include "tests/support/byte_run.h"
#include "tests/support/corruptions.h"
#include "tests/support/expect_plan.h"
#include "tests/support/keep_all.h"
#include "tests/support/offload_gaps.h"
#include "tests/support/random_program.h"

namespace fitstep {
namespace {

struct Tally {
  int64_t reported = 0;  // Does damage and is reported.
  int64_t strict = 0;    // Does none in the orders tried, and is reported.
  int64_t legal = 0;     // Does none and is accepted.
};

class Sweep {
 public:
  // How many orders of the lanes are tried per corruption.
  explicit Sweep(int orders) : orders_(orders) {}

  void run(const Program& program, const Plan& good, const Limits& limits, uint64_t seed) {
    const int64_t arena_bytes = *std::ranges::max_element(limits.capacity_bytes);
    ASSERT_EQ(first_damage(program, good, arena_bytes), "");
    for (const Corruption& corruption : corruptions(program, good, seed)) {
      const std::string found = first_damage(program, corruption.plan, arena_bytes);
      std::vector<Fault> faults = verify(program, corruption.plan, limits);
      // A corruption moves height or peak on the way; it must be seen without that.
      const bool is_claim = corruption.field.starts_with("certificate");
      std::erase_if(faults, [&](const Fault& fault) {
        return !is_claim && fault.kind == FaultKind::WrongCertificate;
      });
      Tally& tally = tallies_[corruption.field];
      if (found.empty()) {
        ++(faults.empty() ? tally.legal : tally.strict);
      } else {
        ++tally.reported;
        ASSERT_FALSE(faults.empty()) << corruption.field << " of " << program.name << ": " << found;
      }
    }
  }

  // What may be changed without a fault, and why. Everything else must never be accepted.
  void expect_legal_only(const std::set<std::string>& fields) const {
    for (const auto& [field, tally] : tallies_) {
      std::string line = fmt::format("{:32} damage {:6}  strict {:6}  legal {:6}", field,
                                     tally.reported, tally.strict, tally.legal);
      fmt::print("{}\n", line);
      EXPECT_TRUE(tally.legal == 0 || fields.contains(field)) << line;
    }
  }

  int64_t damage_count() const {
    int64_t count = 0;
    for (const auto& [field, tally] : tallies_) count += tally.reported;
    return count;
  }

 private:
  std::string first_damage(const Program& program, const Plan& plan, int64_t arena_bytes) const {
    for (int order = 0; order < orders_; ++order) {
      std::string found =
          damage(program, plan, {.arena_bytes = arena_bytes, .seed = static_cast<uint64_t>(order)});
      if (!found.empty()) return found;
    }
    return {};
  }

  int orders_;
  std::map<std::string, Tally> tallies_;
};

// Why a change may be legal:
//   offsets         the block moved to bytes that nobody has then
//   order           the two ops do not depend on each other
//   releases late   nobody needs the bytes yet
//   action twice    the op is pure, and its inputs are still there
//   run.reads       a shape-only read looks at no bytes; or two residencies hold the same version
//   run.writes      a pure op makes again what nobody else needs there
//   run.op, form    another op, or form, with equal operands and equal bits
//   is_home, tier   means nothing for an external residency, or one without bytes
//   code            a lossless code below the device, where copies encode and decode; sign bits
//                   where a read looks at signs only
//   waits           said nothing that other waits do not say
//   the rest        is a name or a time, which the verifier does not judge
const std::set<std::string>& legal_fields() {
  static const std::set<std::string> fields = {"residency.offset_bytes",
                                               "residency.offset_bytes alone",
                                               "residency.is_home",
                                               "residency.code",
                                               "run.form",
                                               "run.reads",
                                               "run.request_offset_bytes",
                                               "releases late",
                                               "order",
                                               "action twice",
                                               "waits dropped",
                                               "waits earlier",
                                               "waits later",
                                               "waits added",
                                               "policy",
                                               "seed",
                                               "certificate.predicted_ps",
                                               "certificate.bound_ps",
                                               "certificate.bound",
                                               "certificate.moves"};
  return fields;
}

RandomProgramOptions small() { return {.layers = 3, .most_bytes = 90}; }

TEST(VerifySweep, SeesAllDamageInKeptPlans) {
  Sweep sweep(1);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Program program = random_program(seed, small());
    const Plan plan = keep_all(program);
    expect_valid(program, plan);
    sweep.run(program, plan, {.capacity_bytes = {2 * plan.certificate.height_bytes}}, seed);
    if (HasFatalFailure()) return;
  }
  sweep.expect_legal_only(legal_fields());
  EXPECT_GT(sweep.damage_count(), 10'000);
}

// Plans that recompute, restore generators and share bytes as tightly as the planner can.
TEST(VerifySweep, SeesAllDamageInTightPlans) {
  Sweep sweep(1);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Program program = random_program(seed, {.layers = 5, .most_bytes = 90});
    const Frontier frontier = make_frontier(program, unit_machine(), {.policy = "recompute"});
    for (const Point& point : frontier.points) {
      const bool recomputes = point.plan.lane(Lane::Compute).size() > program.ops.size();
      if (!recomputes && seed > 3) continue;
      expect_valid(program, point.plan, {.capacity_bytes = {point.height_bytes}});
      sweep.run(program, point.plan, {.capacity_bytes = {2 * point.height_bytes}}, seed);
      if (HasFatalFailure()) return;
    }
  }
  sweep.expect_legal_only(legal_fields());
  EXPECT_GT(sweep.damage_count(), 10'000);
}

TEST(VerifySweep, SeesAllDamageBetweenLanes) {
  Sweep sweep(8);
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Program program = random_program(seed, small());
    Plan plan = offload_gaps(program);
    const Limits limits{
        .capacity_bytes = {2 * plan.certificate.height_bytes, plan.certificate.height_bytes}};
    ASSERT_FALSE(plan.lane(Lane::Evict).empty()) << seed;
    sweep.run(program, plan, limits, seed);
    if (HasFatalFailure()) return;
  }
  sweep.expect_legal_only(legal_fields());
  EXPECT_GT(sweep.damage_count(), 10'000);
}

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
    const Program program = random_program(seed, small());
    const Plan plan = offload_gaps(program);
    for (int i = 0; i < 200; ++i) {
      Plan spoilt = plan;
      for (uint64_t count = dice() % 4 + 1; count > 0; --count) spoil(spoilt, dice);
      const std::vector<Fault> faults =
          verify(program, spoilt, {.capacity_bytes = {noise(dice), noise(dice)}});
      EXPECT_FALSE(faults.empty());
      EXPECT_LE(faults.size(), kMaxFaults);
    }
  }
}

}  // namespace
}  // namespace fitstep

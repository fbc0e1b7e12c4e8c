// Two hundred good plans, corrupted one field at a time. The verifier must report every corruption
// that changes the bytes of a read or makes two live blocks overlap, and with a fitting reason.
//
// The truth is found without the verifier, on real bytes. Plans of at most 12 actions per lane run
// in every reachable state, plans with one lane in their only order. Other plans run in many seeded
// orders that hold lanes back (byte_run.h): these can show damage, but not prove its absence.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"
#include "tests/programs/random_program.h"
#include "tests/support/byte_run.h"
#include "tests/support/corruptions.h"
#include "tests/support/expect_plan.h"
#include "tests/support/explore.h"
#include "tests/support/good_plans.h"
#include "tests/support/keep_all.h"
#include "tests/support/long_form.h"
#include "tests/support/offload_gaps.h"
#include "tests/support/test_files.h"

namespace fitstep {
namespace {

constexpr size_t kPlansPerMix = 50;
constexpr uint64_t kFewSeeds = 8;  // For what is reported anyway.

uint64_t seeds_for_accepted() { return seeds(24, 1000); }

using enum FaultKind;

// Reasons that fit a kind of corruption: the first fault that is found must be one of them. Kinds
// that must never be accepted are those of which nothing is legal.
struct Expected {
  const char* kind;
  std::vector<FaultKind> reasons;
  const char* why;         // These.
  const char* legal = "";  // Why some of the kind may be accepted.
};

const std::vector<Expected>& expectations() {
  static const std::vector<Expected> all = {
      {"address",
       {Overlap, OverCapacity, Misaligned, Malformed},
       "other blocks are there, or no memory; a request and its output must lie together",
       "nobody has these bytes then"},
      {"wait",
       {NotResident, WrongVersion, Overlap, Deadlock, Malformed},
       "read, overwritten or reused too early; waited for what comes later, or is not there",
       "other waits say as much"},
      {"order",
       {WrongVersion, NotResident, Overlap, WrongGenerator, MissingOp, Deadlock},
       "as with waits; draws out of order; a form that may only follow comes first",
       "the two do not depend on each other"},
      {"tier",
       {NotResident, Malformed, Overlap, Misaligned, WrongGenerator, NotACycle},
       "ops read the device; no such tier; what lay right elsewhere lies wrong here"},
      {"version",
       {WrongVersion, NotResident, NotACycle, Deadlock, Malformed},
       "another content, one that has gone, a write that comes later; the one left out is idle, or "
       "a home that keeps an old one"},
      {"generator",
       {WrongGenerator, NotResident, WrongVersion, MissingOp, Deadlock, Malformed},
       "another state, one that is not there; advanced twice; the one left out is idle"},
      {"missing recompute",
       {NotResident, WrongVersion, Deadlock, Malformed},
       "its readers find nothing, or what was there before; copies wait for it; what only it wrote "
       "is never written"},
      {"early release",
       {NotResident, WrongVersion},
       "released before it is there or while another lane uses it; read when it has gone",
       "the op in front has waited for the copy too"},
      {"cycle",
       {NotACycle, NotResident, Malformed},
       "live at the end and not at the start, or the other way round; a home of what has none",
       "outside the arenas, and without bytes, a home means nothing"},
      {"late release",
       {Overlap, WrongVersion, Malformed},
       "others have the bytes by then",
       "nobody needs them yet"},
      {"release",
       {NotResident, WrongVersion, NotACycle, Malformed},
       "gone already, in use, a home; no such residency"},
      {"missing action",
       {NotResident, WrongVersion, MissingOp, WrongGenerator, NotACycle, Deadlock, Malformed},
       "whoever needs it misses it: readers, waits, the end; what only it wrote is never written"},
      {"twice",
       {NotResident, WrongVersion, MissingOp, Overlap, WrongGenerator, Deadlock, Malformed},
       "its inputs have gone or are overwritten; a form that must run once; waits are one off",
       "the op is pure, and its inputs are still there"},
      {"op",
       {Malformed, MissingOp, WrongVersion, NotResident},
       "other operands; other bits, or an op that does not run",
       "a form with equal operands and equal bits"},
      {"operand",
       {Malformed, WrongVersion, NotResident, WrongGenerator},
       "of another storage, none, too many or too few; another version where it has the storage",
       "a read that looks at geometry only"},
      {"storage", {Malformed}, "operands are of storages, and sizes follow from them"},
      {"residency", {Malformed}, "an operand that is not there; one that nobody writes"},
      {"size", {Malformed}, "a storage has one size"},
      {"code",
       {Malformed, WrongVersion},
       "ops write plain bytes, homes are plain; a read of coded bytes",
       "without loss where only copies see it; signs where only signs are read"},
      {"program", {WrongProgram}, "the hash is another program's"},
      {"certificate", {WrongCertificate}, "the number is not the plan's"},
      {"label", {}, "", "a name or a time, which the verifier does not judge"},
  };
  return all;
}

// Those of the kinds that people think of first.
constexpr std::array<std::string_view, 9> kChief = {
    "address",           "wait",          "order", "tier", "version", "generator",
    "missing recompute", "early release", "cycle"};

struct RealDamage {
  std::string damage;
  bool is_known = true;  // Else no damage was seen, which proves nothing.
};

struct Row {
  int64_t corruptions = 0;
  int64_t harmful = 0;
  int64_t reported = 0;
  int64_t strict = 0;    // Reported, and harmless or not seen harmful.
  int64_t harmless = 0;  // Accepted, and harmless in every reachable state.
  int64_t not_seen = 0;  // Accepted, and not seen harmful.
  std::map<FaultKind, int64_t> reasons;

  void add(const Row& other) {
    corruptions += other.corruptions;
    harmful += other.harmful;
    reported += other.reported;
    strict += other.strict;
    harmless += other.harmless;
    not_seen += other.not_seen;
    for (const auto& [kind, count] : other.reasons) reasons[kind] += count;
  }

  std::string text(const std::string& name) const {
    std::string line = fmt::format("{:18} {:8} {:8} {:9} {:7} {:9} {:9}  ", name, corruptions,
                                   harmful, reported, strict, harmless, not_seen);
    for (const auto& [kind, count] : reasons)
      line += fmt::format(" {} {},", to_string(kind), count);
    if (!reasons.empty()) line.pop_back();
    return line;
  }
};

class Counts {
 public:
  // All things of a small plan, some of a large one; half as many in the usual form.
  void corrupt_all(const GoodPlan& good, uint64_t seed) {
    const size_t actions = most_actions(good.plan);
    is_small_ = actions <= kMostActions;
    has_copies_ = !good.plan.lane(Lane::Evict).empty() || !good.plan.lane(Lane::DiskWrite).empty();
    arena_bytes_ = 2 * std::ranges::max(limits_of(good.plan).capacity_bytes);
    if (!good.plan.lane(Lane::DiskWrite).empty()) arena_bytes_ += int64_t{1} << 16;
    ++plans_;
    explored_ += is_small_ || !has_copies_ ? 1 : 0;
    ASSERT_EQ(describe(faults(good.program, good.plan, "")), "") << good.name;
    ASSERT_EQ(truth(good.program, good.plan, false).damage, "") << good.name;
    const bool is_whole = is_small_ || (!has_copies_ && actions < 3 * kMostActions);
    const size_t thinned = is_long() ? 1 : 2;
    const size_t one_in = thinned * (is_whole ? 1 : 1 + actions / 3);
    corrupt(good.program, good.plan, {.seed = seed, .one_in = one_in},
            [&](const Corruption& corruption) { count(good, corruption); });
  }

  void print() const {
    fmt::print("{} plans, {} of them in every reachable state\n", plans_, explored_);
    fmt::print("{:18} {:>8} {:>8} {:>9} {:>7} {:>9} {:>9}   reasons\n", "corrupted", "count",
               "harmful", "reported", "strict", "harmless", "not seen");
    Row sum;
    for (const auto& [kind, row] : rows_) {
      fmt::print("{}\n", row.text(kind));
      sum.add(row);
    }
    sum.reasons.clear();
    fmt::print("{}\n", sum.text("all"));
    fmt::print("dice: of {} harmful corruptions of small plans with copies, {} orders show {}\n",
               tried_by_seeds_, seeds_for_accepted(), found_by_seeds_);
  }

  void expect_right_reasons() const {
    for (const auto& [kind, row] : rows_) expect_right_reasons(kind, row);
    // Orders by seed stand for all orders: of what all orders show, they miss next to nothing.
    EXPECT_GE(found_by_seeds_ * 1000, tried_by_seeds_ * 995);
  }

  int64_t explored() const { return explored_; }
  int64_t harmful(std::string_view kind) const {
    const auto row = rows_.find(kind);
    return row == rows_.end() ? 0 : row->second.harmful;
  }

 private:
  static void expect_right_reasons(const std::string& kind, const Row& row) {
    const auto expected = std::ranges::find(expectations(), kind, &Expected::kind);
    ASSERT_NE(expected, expectations().end()) << kind;
    const bool is_never_legal = std::string_view(expected->legal).empty();
    EXPECT_TRUE(row.reported == row.corruptions || !is_never_legal) << kind;
    for (const auto& [reason, count] : row.reasons) {
      EXPECT_TRUE(std::ranges::count(expected->reasons, reason) > 0)
          << kind << " reported as " << to_string(reason) << ", " << count << " times";
    }
  }

  static size_t most_actions(const Plan& plan) {
    size_t most = 0;
    for (const std::vector<Action>& lane : plan.lanes) most = std::max(most, lane.size());
    return most;
  }

  // A corruption moves height or peak on the way; it must be seen without that.
  std::vector<Fault> faults(const Program& program, const Plan& plan, std::string_view kind) const {
    std::vector<Fault> found =
        verify(program, plan, {.capacity_bytes = {arena_bytes_, arena_bytes_, arena_bytes_}});
    if (kind == "certificate") return found;
    std::erase_if(found, [](const Fault& it) { return it.kind == WrongCertificate; });
    return found;
  }

  RealDamage truth(const Program& program, const Plan& plan, bool is_reported) {
    if (is_small_ || !has_copies_) {
      const Exploration found = explore(program, plan, arena_bytes_);
      return {found.damage, found.is_whole};
    }
    const std::string found =
        damage_by_seed(program, plan, is_reported ? kFewSeeds : seeds_for_accepted());
    return {found, !found.empty()};
  }

  std::string damage_by_seed(const Program& program, const Plan& plan, uint64_t seeds) const {
    std::string found;
    for (uint64_t seed = 0; seed < seeds && found.empty(); ++seed) {
      found = damage(program, plan, {.arena_bytes = arena_bytes_, .seed = seed});
    }
    return found;
  }

  void count(const GoodPlan& good, const Corruption& corruption) {
    const std::vector<Fault> found = faults(good.program, corruption.plan, corruption.kind);
    const bool is_reported = !found.empty();
    const RealDamage real = truth(good.program, corruption.plan, is_reported);
    const bool is_harmful = !real.damage.empty();
    EXPECT_TRUE(is_reported || !is_harmful) << corruption.kind << ", " << corruption.what << ", of "
                                            << good.name << ": " << real.damage;
    Row one{.corruptions = 1, .harmful = is_harmful ? 1 : 0, .reported = is_reported ? 1 : 0};
    if (is_reported) {
      one.strict = is_harmful ? 0 : 1;
      one.reasons[found.front().kind] = 1;
    } else {
      (real.is_known ? one.harmless : one.not_seen) = 1;
    }
    rows_[corruption.kind].add(one);
    if (is_harmful && is_small_ && has_copies_) {
      ++tried_by_seeds_;
      const bool is_seen =
          !damage_by_seed(good.program, corruption.plan, seeds_for_accepted()).empty();
      found_by_seeds_ += is_seen ? 1 : 0;
    }
  }

  bool is_small_ = false;
  bool has_copies_ = false;
  int64_t arena_bytes_ = 0;
  int64_t plans_ = 0;
  int64_t explored_ = 0;
  int64_t tried_by_seeds_ = 0;
  int64_t found_by_seeds_ = 0;
  std::map<std::string, Row, std::less<>> rows_;
};

std::vector<Program> golden_programs() {
  std::vector<Program> golden;
  for (const char* name : {"pyramid", "random", "mlp", "lstm", "unet", "gpt"}) {
    const std::string path = fmt::format("{}/tests/golden/{}.program", FITSTEP_SOURCE_DIR, name);
    golden.push_back(program_of(read_file(path)));
  }
  return golden;
}

TEST(CorruptionCount, OfTwoHundredGoodPlans) {
  const std::vector<GoodPlan> plans = good_plans(golden_programs(), kPlansPerMix);
  EXPECT_EQ(plans.size(), 4 * kPlansPerMix);
  Counts counts;
  for (size_t i = 0; i < plans.size(); ++i) {
    counts.corrupt_all(plans[i], i);
    if (HasFatalFailure()) return;
  }
  counts.print();
  counts.expect_right_reasons();
  EXPECT_GT(counts.explored(), 120);
  for (const std::string_view kind : kChief) EXPECT_GT(counts.harmful(kind), 50) << kind;
}

// Made without the planner: every block has bytes of its own, so only waits can be wrong.
TEST(CorruptionCount, OfLoosePlans) {
  Counts counts;
  for (uint64_t seed = 0; seed < seeds(12, 24); ++seed) {
    const Program program = random_program(seed, {.layers = 2, .most_bytes = 90});
    for (const GapsTo to : {GapsTo::Host, GapsTo::Both}) {
      counts.corrupt_all({"loose", program, offload_gaps(program, to)}, seed);
      if (HasFatalFailure()) return;
    }
  }
  counts.print();
  counts.expect_right_reasons();
}

}  // namespace
}  // namespace fitstep

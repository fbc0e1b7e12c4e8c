// The planner against the fastest plan there is, on small programs and at every budget.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/property/truth_misses.h"
#include "tests/support/tiny_program.h"
#include "tests/support/truth.h"

namespace fitstep {
namespace {

// Which programs are asked about, and with which policies.
struct Range {
  uint64_t first = 1;
  uint64_t last = 0;
  std::vector<std::string> policies = {"recompute", "offload", "auto"};
  size_t most_states = kTruthStates;
};

// FITSTEP_LONG asks for the long form; "auto 1 2500" is a part of it, "auto 570 570 20000000" one
// program with more plans to try.
Range usual_or_long(uint64_t usual) {
  const char* wish = std::getenv("FITSTEP_LONG");
  if (wish == nullptr) return {.last = usual};
  Range part{.policies = {""}};
  std::istringstream words(wish);
  if (words >> part.policies[0] >> part.first >> part.last) {
    size_t most_states = 0;
    if (words >> most_states) part.most_states = most_states;
    return part;
  }
  return {.last = 10'000};
}

// Every op has one form.
Program small_program(uint64_t seed) {
  Program program = tiny_program(seed, {.unit_bytes = kTruthUnitBytes});
  for (Op& op : program.ops) op.forms.resize(1);
  return program;
}

// Many ops have forms that trade time for scratch.
Program small_program_with_forms(uint64_t seed) {
  return tiny_program(seed, {.unit_bytes = kTruthUnitBytes, .trades_scratch = true});
}

struct Tally {
  size_t asked = 0;    // Where the planner found a plan, so that there is one.
  size_t equal = 0;    // As fast as the fastest.
  size_t within = 0;   // At most 1.05 times as long.
  size_t unknown = 0;  // Too many plans to try; counts as not within.
  double worst = 1;
  size_t least_asked = 0;  // Programs for which there is a plan below the height with all kept.
  size_t least_equal = 0;  // The least budget of any plan is the planner's.

  void add(const Tally& other) {
    asked += other.asked;
    equal += other.equal;
    within += other.within;
    unknown += other.unknown;
    worst = std::max(worst, other.worst);
    least_asked += other.least_asked;
    least_equal += other.least_equal;
  }
};

void print(const std::string& name, const Tally& tally) {
  std::cout << name << ": " << tally.asked << " budgets, " << tally.equal << " equal, "
            << tally.within << " within 1.05, " << tally.unknown << " not decided, worst "
            << tally.worst << "; " << tally.least_asked << " least budgets, " << tally.least_equal
            << " equal\n";
}

void add_truth(const Truth& truth, Tally& tally) {
  ++tally.asked;
  if (!truth.is_known) {
    ++tally.unknown;
    return;
  }
  const int64_t found_s = truth.found_s.value_or(0);
  const int64_t least_s = truth.least_s.value_or(1);
  const double ratio = static_cast<double>(found_s) / static_cast<double>(least_s);
  tally.worst = std::max(tally.worst, ratio);
  tally.equal += found_s == least_s ? 1U : 0U;
  tally.within += ratio <= 1.05 ? 1U : 0U;
}

// Prints a program for which the planner misses the truth somewhere.
void compare(const Program& program, const std::string& policy, size_t most_states, Tally& tally) {
  std::string misses;
  bool is_least = true;
  bool has_plan = false;
  for (const Truth& truth : find_truth(program, policy, most_states)) {
    const std::string room = std::to_string(truth.room_units);
    has_plan = has_plan || truth.found_s;
    if (!truth.found_s && (truth.least_s || !truth.is_known)) {
      is_least = false;
      has_plan = true;
      misses += "none at " + room + (truth.is_known ? ", one is there; " : ", unknown; ");
    }
    if (!truth.found_s) continue;
    const size_t within = tally.within;
    add_truth(truth, tally);
    if (tally.within > within) continue;
    misses += std::to_string(truth.found_s.value_or(0)) + " s at " + room + ", best " +
              (truth.is_known ? std::to_string(truth.least_s.value_or(0)) : "unknown") + "; ";
  }
  tally.least_asked += has_plan ? 1U : 0U;
  tally.least_equal += has_plan && is_least ? 1U : 0U;
  if (!misses.empty()) std::cout << policy << ": " << misses << "\n" << print_program(program);
}

// For each policy, and all together.
Tally compare_all(Program (*make)(uint64_t seed), const Range& range) {
  Tally sum;
  for (const std::string& policy : range.policies) {
    Tally tally;
    for (uint64_t seed = range.first; seed <= range.last; ++seed) {
      compare(make(seed), policy, range.most_states, tally);
    }
    print(policy, tally);
    sum.add(tally);
  }
  print("all", sum);
  return sum;
}

TEST(Truth, PlansAreAsFastAsTheFastest) {
  const Tally sum = compare_all(small_program, usual_or_long(400));
  EXPECT_GE(sum.asked, 1000U);
  EXPECT_GE(sum.within * 1000, sum.asked * 993);
  EXPECT_GE(sum.least_equal * 1000, sum.least_asked * 995);
  EXPECT_LE(sum.worst, 1.6);
}

TEST(Truth, PlansWithAlternativesAreAsFastAsTheFastest) {
  const Tally sum = compare_all(small_program_with_forms, usual_or_long(400));
  EXPECT_GE(sum.asked, 1000U);
  EXPECT_GE(sum.within * 1000, sum.asked * 993);
  EXPECT_GE(sum.least_equal * 1000, sum.least_asked * 995);
  EXPECT_LE(sum.worst, 1.6);
}

// Where the planner falls short today, with what it finds: each is a figure to lower.
struct Miss {
  const char* name;
  uint64_t seed;
  const char* policy;
  int64_t room_units;
  int64_t found_s;  // 0: no plan.
  int64_t least_s;  // 0: there is a plan; the time is not asked for.
  bool has_forms = false;
};

class TruthMiss : public testing::TestWithParam<Miss> {};

TEST_P(TruthMiss, IsWhatItWas) {
  const Miss& miss = GetParam();
  const Program program =
      miss.has_forms ? small_program_with_forms(miss.seed) : small_program(miss.seed);
  const Truth truth = find_truth_at(program, miss.policy, miss.room_units);
  EXPECT_TRUE(truth.is_known);
  EXPECT_EQ(truth.found_s.value_or(0), miss.found_s);
  ASSERT_TRUE(truth.least_s.has_value());
  if (miss.least_s > 0) {
    EXPECT_EQ(*truth.least_s, miss.least_s);
  }
}

// Two values more would have to be dropped or away together, where neither alone brings anything.
// Or a prefetch would have to start in the middle of an op, where an eviction has just ended.
INSTANTIATE_TEST_SUITE_P(
    Known, TruthMiss,
    testing::Values(Miss{"BothTake20sInsteadOf19s", 139, "auto", 6, 20, 19},
                    Miss{"BothTake18sInsteadOf17s", 442, "auto", 11, 18, 17},
                    Miss{"BothTake24sInsteadOf21s", 511, "auto", 11, 24, 21},
                    Miss{"BothTake18sInsteadOf17sIn7Units", 497, "auto", 7, 18, 17},
                    Miss{"BothFindNothingIn6Units", 2099, "auto", 6, 0, 0},
                    Miss{"OffloadInTheMiddleOfAnOp", 428, "offload", 8, 19, 18},
                    Miss{"OffloadInTheMiddleOfAShortOp", 716, "offload", 5, 14, 13}),
    [](const auto& miss) { return miss.param.name; });

// One in `step`; all in the long form.
void expect_planned(const std::string& policy, std::span<const KnownMiss> misses, size_t step) {
  if (std::getenv("FITSTEP_LONG") != nullptr) step = 1;
  for (size_t i = 0; i < misses.size(); i += step) {
    const KnownMiss& miss = misses[i];
    const auto found_s = find_planned_s(small_program(miss.seed), policy, miss.room_units);
    EXPECT_EQ(found_s.value_or(0), miss.found_s) << policy << ", seed " << miss.seed << " at "
                                                 << miss.room_units << ", best " << miss.least_s;
  }
}

TEST(TruthMisses, OfOffloadAreWhatTheyWere) { expect_planned("offload", kOffloadMisses, 1); }

TEST(TruthMisses, OfAutoAreWhatTheyWere) { expect_planned("auto", kAutoMisses, 8); }

// What was missed once, each for another reason.
struct Reached {
  const char* name;
  uint64_t seed;
  const char* policy;
  int64_t room_units;
};

class TruthReached : public testing::TestWithParam<Reached> {};

TEST_P(TruthReached, IsTheFastest) {
  const Reached& asked = GetParam();
  const Truth truth = find_truth_at(small_program(asked.seed), asked.policy, asked.room_units);
  EXPECT_TRUE(truth.is_known);
  ASSERT_TRUE(truth.found_s.has_value());
  EXPECT_EQ(truth.found_s, truth.least_s);
}

INSTANTIATE_TEST_SUITE_P(
    Known, TruthReached,
    testing::Values(Reached{"PrefetchWhereSomethingLeftInTheSamePause", 297, "offload", 7},
                    Reached{"EvictWhatComesBackLastFirst", 271, "offload", 6},
                    Reached{"EvictWhatComesBackLastFirstWithRecompute", 271, "auto", 6},
                    Reached{"PrefetchLate", 901, "offload", 10},
                    Reached{"LieWhereABlockHasShrunk", 2500, "recompute", 10},
                    Reached{"EvictBesideABlockThatShrinks", 1571, "offload", 10},
                    Reached{"DropWhatHelpsOnlyWhileAnotherIsAway", 780, "auto", 9}),
    [](const auto& reached) { return reached.param.name; });

}  // namespace
}  // namespace fitstep

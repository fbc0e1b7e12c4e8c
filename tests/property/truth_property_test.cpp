// Compares the planner with the fastest possible plan, on small programs and at every budget.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "fitstep/program/program.h"
#include "fitstep/program/text.h"
#include "tests/programs/tiny_program.h"
#include "tests/support/truth.h"

namespace fitstep {
namespace {

constexpr const char* kPolicies[] = {"recompute", "offload", "auto"};

// Every op has one form.
Program one_form_case(uint64_t seed) {
  Program program = tiny_program(seed, {.unit_bytes = kTruthUnitBytes});
  for (Op& op : program.ops) op.forms.resize(1);
  return program;
}

// Many ops have forms that trade time for scratch.
Program many_forms_case(uint64_t seed) {
  return tiny_program(seed, {.unit_bytes = kTruthUnitBytes, .trades_scratch = true});
}

struct TruthTally {
  size_t asked = 0;    // Where the planner found a plan, so that there is one.
  size_t equal = 0;    // As fast as the fastest.
  size_t within = 0;   // At most 1.05 times as long.
  size_t unknown = 0;  // Too many plans to try; counts as not within.
  double worst = 1;
  size_t least_asked = 0;  // Programs for which there is a plan below the height with all kept.
  size_t least_equal = 0;  // The least budget of any plan is the planner's.

  void add(const TruthTally& other) {
    asked += other.asked;
    equal += other.equal;
    within += other.within;
    unknown += other.unknown;
    worst = std::max(worst, other.worst);
    least_asked += other.least_asked;
    least_equal += other.least_equal;
  }
};

void print(const std::string& name, const TruthTally& tally) {
  std::cout << name << ": " << tally.asked << " budgets, " << tally.equal << " equal, "
            << tally.within << " within 1.05, " << tally.unknown << " not decided, worst "
            << tally.worst << "; " << tally.least_asked << " least budgets, " << tally.least_equal
            << " equal\n";
}

void add_truth(const Truth& truth, TruthTally& tally) {
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
void compare(const Program& program, const std::string& policy, TruthTally& tally) {
  std::string misses;
  bool is_least = true;
  bool has_plan = false;
  for (const Truth& truth : find_truth(program, policy)) {
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
TruthTally compare_all(Program (*make)(uint64_t seed)) {
  const uint64_t programs = std::getenv("FITSTEP_LONG") == nullptr ? 400 : 10'000;
  TruthTally sum;
  for (const char* policy : kPolicies) {
    TruthTally tally;
    for (uint64_t seed = 1; seed <= programs; ++seed) compare(make(seed), policy, tally);
    print(policy, tally);
    sum.add(tally);
  }
  print("all", sum);
  return sum;
}

// Programs as small as these are no training steps: the searches are for those, and here miss some.
TEST(Truth, NineInTenPlansAreAsFastAsTheFastest) {
  const TruthTally sum = compare_all(one_form_case);
  EXPECT_GE(sum.asked, 900U);
  EXPECT_GE(sum.within * 1000, sum.asked * 890);
  EXPECT_GE(sum.least_equal * 1000, sum.least_asked * 850);
  EXPECT_LE(sum.worst, 3);
}

TEST(Truth, NineInTenPlansWithAlternativesAreAsFastAsTheFastest) {
  const TruthTally sum = compare_all(many_forms_case);
  EXPECT_GE(sum.asked, 900U);
  EXPECT_GE(sum.within * 1000, sum.asked * 890);
  EXPECT_GE(sum.least_equal * 1000, sum.least_asked * 850);
  EXPECT_LE(sum.worst, 3);
}

}  // namespace
}  // namespace fitstep

#include "fitstep/planner/schedule/forms.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/schedule/scheduler.h"
#include "fitstep/planner/schedule/selection.h"
#include "fitstep/planner/schedule/space.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/support/expect_plan.h"
#include "tests/support/units.h"

namespace fitstep {
namespace {

StorageId id(int32_t storage) { return StorageId(storage); }

// a is made by f and read by g, which makes b; both live during g:
//
//   units                       g: default  3 s, no scratch
//     4 |          ....            fast     1 s, 2 units
//     2 |     +---- b              middle   2 s, 1 unit
//     1 +---- a ---+               other    0 s, other bits
//         f     g                  partly   1 s, leaves out b
class Forms : public testing::Test {
 protected:
  Forms() {
    program_.name = "forms";
    program_.calls = {{.text = "call"}};
    for (const char* name : {"a", "b"}) {
      program_.storages.push_back({.name = name, .size_bytes = kUnitBytes});
    }
    Form f{.call = CallId(0), .writes = {{id(0), 1, {}}}, .time_ps = kPicosecondsPerSecond};
    program_.ops.push_back({.name = "f", .forms = {f}});
    const Form standard = g("default", 3, 0);
    Form other = g("other", 0, 0);
    other.has_equal_bits = false;
    Form partly = g("partly", 1, 0);
    partly.is_pure = true;
    partly.writes.clear();
    program_.ops.push_back(
        {.name = "g", .forms = {standard, g("fast", 1, 2), g("middle", 2, 1), other, partly}});
  }

  static Form g(const std::string& name, int64_t seconds, int64_t scratch_units) {
    Form form{.name = name,
              .call = CallId(0),
              .reads = {{id(0), 1}},
              .writes = {{id(1), 1, {}}},
              .time_ps = seconds * kPicosecondsPerSecond};
    if (scratch_units > 0) {
      form.requests = {{.size_bytes = scratch_units * kUnitBytes, .live = {.begin = 0, .end = 1}}};
    }
    return form;
  }

  Values values() const {
    return {program_, std::vector<OpId>{OpId(int32_t{0}), OpId(int32_t{1})}};
  }

  std::string form_at_capacity(int64_t units, const std::string& policy) const {
    const Machine machine{.name = "unit", .tiers = {{.name = "device"}}};
    const Outcome outcome =
        make_plan(program_, machine, {.capacity_bytes = units * kUnitBytes, .policy = policy});
    expect_valid(program_, outcome, units * kUnitBytes);
    const Fits* fits = std::get_if<Fits>(&outcome);
    if (fits == nullptr) return "no plan";
    const auto& run = fits->plan.lane(Lane::Compute).back().run;
    return program_.ops[run.op.index()].forms[static_cast<size_t>(run.form)].name;
  }

  Program program_;
};

// fast 1 s, middle 2 s, default 3 s; `other` has other bits, and `partly` makes no b.
TEST_F(Forms, ThatDoAllWithEqualBitsComeFastestFirst) {
  const Values values = this->values();
  std::vector<int32_t> forms;
  for (const Values::Choice& choice : values.first_forms(1)) forms.push_back(choice.form);
  EXPECT_EQ(forms, (std::vector<int32_t>{1, 2, 0}));
  EXPECT_TRUE(values.has_alternatives());
}

// f 1 s, and g in its fast form 1 s.
TEST_F(Forms, AreTheFastestBeforeAnyLimit) {
  const Values values = this->values();
  const auto schedule = make_schedule(values, keep_all(values));
  ASSERT_TRUE(schedule.has_value());
  EXPECT_EQ(schedule->instances[1].form, 1);
  EXPECT_EQ(schedule->op_ps, 2 * kPicosecondsPerSecond);
}

// Of a, b and the scratch of g; of f and g:
//
//   fast      1 + 1 + 2 = 4 units    1 + 1 = 2 s
//   middle    1 + 1 + 1 = 3          1 + 2 = 3
//   default   1 + 1     = 2          1 + 3 = 4
TEST_F(Forms, HaveOnePointForEachThatIsWorthIt) {
  const Values values = this->values();
  const auto schedule = make_schedule(values, keep_all(values));
  ASSERT_TRUE(schedule.has_value());
  const std::vector<FormPoint> points =
      form_points(values, *schedule, make_space(values, *schedule));
  ASSERT_EQ(points.size(), 3U);
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].peak_bytes, (4 - static_cast<int64_t>(i)) * kUnitBytes);
    EXPECT_EQ(points[i].time_ps, (2 + static_cast<int64_t>(i)) * kPicosecondsPerSecond);
  }
}

// With 3 units g runs in the middle form, 1 + 2 s. In 1 unit none fits, so it needs the least.
TEST_F(Forms, FitIntoALimitOrNeedTheLeast) {
  const Values values = this->values();
  auto schedule = make_schedule(values, keep_all(values));
  ASSERT_TRUE(schedule.has_value());
  const auto fit = [&](FormLimit kind, int64_t units) {
    fit_forms(values, make_space(values, *schedule), kind, units * kUnitBytes, *schedule);
    return schedule->instances[1].form;
  };
  EXPECT_EQ(fit(FormLimit::Load, 3), 2);
  EXPECT_EQ(schedule->op_ps, 3 * kPicosecondsPerSecond);
  EXPECT_EQ(fit(FormLimit::Load, 1), 0);
  EXPECT_EQ(fit(FormLimit::Load, 4), 1);
  EXPECT_EQ(fit(FormLimit::Own, 3), 2);
  EXPECT_EQ(schedule->op_ps, 3 * kPicosecondsPerSecond);
}

// 4, 3 and 2 units, as above; a and b alone need 2.
TEST_F(Forms, OfAPlanAreTheFastestThatFit) {
  for (const char* policy : {"auto", "recompute", "offload", "none"}) {
    EXPECT_EQ(form_at_capacity(4, policy), "fast") << policy;
    EXPECT_EQ(form_at_capacity(3, policy), "middle") << policy;
    EXPECT_EQ(form_at_capacity(2, policy), "default") << policy;
    EXPECT_EQ(form_at_capacity(1, policy), "no plan") << policy;
  }
}

// The fast form also reads c, which f makes too: a, b, c and 2 of scratch are 5 units.
TEST_F(Forms, ThatReadWhatIsNotThereAreLeftOut) {
  program_.storages.push_back({.name = "c", .size_bytes = kUnitBytes});
  Form& f = program_.ops[0].forms[0];
  f.writes.push_back({id(2), 1, {}});
  program_.ops[1].forms[1].reads.push_back({id(2), 1});
  EXPECT_EQ(form_at_capacity(5, "recompute"), "fast");
  // h overwrites c before g.
  Form h{.call = CallId(0), .reads = {{id(2), 1}}, .writes = {{id(2), 2, {}}}};
  program_.ops.insert(program_.ops.begin() + 1, {.name = "h", .must_not_move = true, .forms = {h}});
  program_.ops[2].must_not_move = true;
  EXPECT_EQ(form_at_capacity(5, "recompute"), "middle");
}

TEST_F(Forms, ReplaceOnlyThoseOfEqualOperands) {
  const std::vector<Form>& forms = program_.ops[1].forms;
  EXPECT_TRUE(have_equal_operands(forms[0], forms[1]));
  EXPECT_FALSE(have_equal_operands(forms[0], forms[4]));
  Form reads_less = forms[0];
  reads_less.reads[0].kind = ReadKind::ShapeOnly;
  EXPECT_FALSE(have_equal_operands(forms[0], reads_less));
  Form takes = forms[0];
  takes.writes[0].may_take = id(0);
  EXPECT_FALSE(have_equal_operands(forms[0], takes));
}

}  // namespace
}  // namespace fitstep

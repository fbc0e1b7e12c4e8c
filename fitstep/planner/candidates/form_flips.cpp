#include "fitstep/planner/candidates/form_flips.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/candidates/candidate.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {

FormFlips::FormFlips(const Task& task) : task_(task), tries_(task.effort().changes_tried()) {
  const bool has_forms = has("flips of forms") && task.values.has_alternatives();
  for (Tick tick = 0; has_forms && tick < task.values.tick_count(); ++tick) {
    add_decisions(tick, task.values.first_forms(tick), /*is_again=*/false);
    add_decisions(tick, task.values.again_forms(tick), /*is_again=*/true);
  }
  if (std::ssize(decisions_) * 4 > tries_) decisions_.clear();
  try_it(std::vector<char>(decisions_.size(), 0));
  while (tries_ > 0 && !decisions_.empty()) {
    const auto open = std::ranges::find(tried_, false, &Tried::is_done);
    if (open == tried_.end()) break;
    for (Tried& same : tried_) same.is_done |= same.is_set == open->is_set;
    flip(open->is_set);
  }
  for (auto tried = tried_.begin(); tried != tried_.end(); ++tried) {
    // With slower forms it may be there again.
    if (std::ranges::find(tried_.begin(), tried, tried->is_set, &Tried::is_set) != tried) continue;
    best_.push_back(make(tried->is_set));
  }
}

std::vector<Selection> FormFlips::around(const Selection& selection) const {
  std::vector<Selection> selections;
  for (const Decision& decision : decisions_) {
    selections.push_back(selection);
    int8_t& form = form_of(selections.back(), decision);
    form = form == decision.choice ? int8_t{0} : decision.choice;
  }
  return selections;
}

// One for each form whose operands are not those of a faster one.
void FormFlips::add_decisions(Tick tick, std::span<const Values::Choice> forms, bool is_again) {
  const std::vector<Form>& of_op = task_.values.op_at(tick).forms;
  const size_t count = std::min<size_t>(forms.size(), std::numeric_limits<int8_t>::max());
  for (size_t i = 1; i < count; ++i) {
    const bool is_new = std::ranges::none_of(forms.first(i), [&](const Values::Choice& faster) {
      return have_equal_operands(of_op[static_cast<size_t>(faster.form)],
                                 of_op[static_cast<size_t>(forms[i].form)]);
    });
    if (is_new) decisions_.push_back({tick, is_again, static_cast<int8_t>(i)});
  }
}

// By value, because tried_ changes meanwhile.
void FormFlips::flip(std::vector<char> is_set) {
  for (size_t i = 0; i < is_set.size(); ++i) {
    is_set[i] ^= 1;
    try_it(is_set);
    for (size_t k = i + 1; k < is_set.size() && tries_ > 0; ++k) {
      is_set[k] ^= 1;
      try_it(is_set);
      is_set[k] ^= 1;
    }
    is_set[i] ^= 1;
  }
}

int8_t& FormFlips::form_of(Selection& selection, const Decision& decision) const {
  std::vector<int8_t>& forms = decision.is_again ? selection.again_form : selection.first_form;
  forms.resize(static_cast<size_t>(task_.values.tick_count()), 0);
  return forms[static_cast<size_t>(decision.tick)];
}

Selection FormFlips::make(const std::vector<char>& is_set) const {
  Selection selection = keep_all(task_.values);
  selection.name = "forms";
  for (size_t i = 0; i < is_set.size(); ++i) {
    if (is_set[i] != 0) form_of(selection, decisions_[i]) = decisions_[i].choice;
  }
  return selection;
}

void FormFlips::try_it(const std::vector<char>& is_set) {
  --tries_;
  const std::optional<Candidate> candidate = schedule_candidate(task_, make(is_set));
  if (!candidate) return;
  for (const FormPoint& point : points_of(task_, *candidate)) add(is_set, point);
}

void FormFlips::add(const std::vector<char>& is_set, const FormPoint& point) {
  for (const Tried& other : tried_) {
    if (other.bytes <= point.peak_bytes && other.predicted_ps <= point.time_ps) return;
  }
  std::erase_if(tried_, [&](const Tried& other) {
    return other.bytes >= point.peak_bytes && other.predicted_ps >= point.time_ps;
  });
  const auto place = std::ranges::find_if(
      tried_, [&](const Tried& other) { return other.predicted_ps > point.time_ps; });
  tried_.insert(place,
                {.is_set = is_set, .bytes = point.peak_bytes, .predicted_ps = point.time_ps});
}

}  // namespace fitstep

#include "fitstep/planner/candidates/flips.h"

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
Flips::Flips(const Task& task) : task_(task), tries_(task.effort().changes_tried()) {
  if (has("flips") && task.request.policy != "offload") add_drops();
  if (has("flips of forms") && task.values.has_alternatives()) add_forms();
  std::ranges::stable_sort(decisions_, {}, &Decision::tick);
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

std::vector<Selection> Flips::around(const Selection& selection) const {
  std::vector<char> is_set = selection.decisions;
  is_set.resize(decisions_.size(), 0);
  std::vector<Selection> selections;
  for (char& bit : is_set) {
    bit ^= 1;
    selections.push_back(make(is_set));
    bit ^= 1;
  }
  return selections;
}

void Flips::add_drops() {
  constexpr size_t kMostValues = std::numeric_limits<int8_t>::max();  // One scope each.
  size_t value_count = 0;
  for (size_t i = 0; i < task_.values.size(); ++i) {
    const Value& value = task_.values[ValueId(i)];
    if (value.size_bytes == 0 || value.recomputable_until <= value.made) continue;
    ++value_count;
    if (value_count > kMostValues || std::ssize(decisions_) * 4 > tries_) break;
    const Tick end = std::min(value.recomputable_until, task_.values.tick_count() - 1);
    for (Tick tick = value.made + 1; tick <= end; ++tick) {
      decisions_.push_back({Decision::Kind::Drop, tick, ValueId(i)});
      decisions_.push_back({Decision::Kind::MakeEarly, tick, ValueId(i)});
    }
  }
  const auto once = static_cast<int64_t>(decisions_.size());
  if (value_count > kMostValues || once * 4 > tries_) decisions_.clear();
}

void Flips::add_forms() {
  const auto drops = static_cast<std::ptrdiff_t>(decisions_.size());
  for (Tick tick = 0; tick < task_.values.tick_count(); ++tick) {
    add_forms(tick, task_.values.first_forms(tick), Decision::Kind::FirstForm);
    add_forms(tick, task_.values.again_forms(tick), Decision::Kind::AgainForm);
  }
  if (std::ssize(decisions_) * 4 > tries_) decisions_.resize(static_cast<size_t>(drops));
}

// One for each form whose operands are not those of a faster one: among equals the limit decides.
void Flips::add_forms(Tick tick, std::span<const Values::Choice> forms, Decision::Kind kind) {
  const std::vector<Form>& of_op = task_.values.op_at(tick).forms;
  const size_t count = std::min<size_t>(forms.size(), std::numeric_limits<int8_t>::max());
  for (size_t i = 1; i < count; ++i) {
    const bool is_new = std::ranges::none_of(forms.first(i), [&](const Values::Choice& faster) {
      return have_equal_operands(of_op[static_cast<size_t>(faster.form)],
                                 of_op[static_cast<size_t>(forms[i].form)]);
    });
    if (is_new) decisions_.push_back({kind, tick, ValueId(), static_cast<int8_t>(i)});
  }
}

// By value, because tried_ changes meanwhile.
void Flips::flip(std::vector<char> is_set) {
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

Selection Flips::make(const std::vector<char>& is_set) const {
  Selection selection = keep_all(task_.values);
  selection.name = "flips";
  for (size_t i = 0; i < is_set.size(); ++i) {
    if (is_set[i] == 0) continue;
    if (decisions_[i].kind == Decision::Kind::MakeEarly) {
      selection.early.push_back({decisions_[i].tick, decisions_[i].value});
      continue;
    }
    if (decisions_[i].kind != Decision::Kind::Drop) {
      const bool is_first = decisions_[i].kind == Decision::Kind::FirstForm;
      std::vector<int8_t>& forms = is_first ? selection.first_form : selection.again_form;
      forms.resize(static_cast<size_t>(task_.values.tick_count()), 0);
      forms[static_cast<size_t>(decisions_[i].tick)] = decisions_[i].choice;
      continue;
    }
    int8_t& scope = selection.scope_of[decisions_[i].value.index()];
    if (scope == Selection::kKeep) {
      scope = static_cast<int8_t>(selection.scopes.size());
      selection.scopes.emplace_back(static_cast<size_t>(task_.values.tick_count()), 0);
    }
    std::vector<int32_t>& part = selection.scopes[static_cast<size_t>(scope)];
    for (size_t tick = static_cast<size_t>(decisions_[i].tick); tick < part.size(); ++tick) {
      ++part[tick];
    }
  }
  selection.decisions = is_set;
  return selection;
}

void Flips::try_it(const std::vector<char>& is_set) {
  --tries_;
  const std::optional<Candidate> candidate = schedule_candidate(task_, make(is_set));
  if (!candidate) return;
  for (const FormPoint& point : points_of(task_, *candidate)) add(is_set, point);
}

void Flips::add(const std::vector<char>& is_set, const FormPoint& point) {
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

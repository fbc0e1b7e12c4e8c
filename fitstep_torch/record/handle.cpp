// What happens to an operator that Python calls. The first answer that fits holds:
//
//   what it is         a view or a size runs; a value's reader runs after what is recorded
//   its memory         an operator that changes which memory a tensor has, or whose results'
//                      sizes depend on values, runs between two segments
//   at once            one that reads known bytes alone and makes little runs now
//   else it computes   and is recorded, or compared with what is recorded
#include <cstddef>
#include <cstdint>
#include <string>

#include "fitstep_torch/operators.h"
#include "fitstep_torch/record/follower.h"
#include "fitstep_torch/record/lent_memory.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

using Kind = OperatorFacts::Kind;

constexpr int64_t kMostGuessed = 10'000;

}  // namespace

void Follower::handle(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                      torch::jit::Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const Called called{
      .op = op, .facts = facts_of(op), .keys = keys, .stack = stack, .count = count};
  for (const size_t i : called.facts.optional) use_known_type((*stack)[stack->size() - count + i]);
  if (called.facts.kind == Kind::Composite) {  // It calls operators, which come here.
    run(called);
    return;
  }
  const c10::impl::ExcludeDispatchKeyGuard not_here(c10::DispatchKey::Fake);
  if (handle_by_kind(called) || handle_by_memory(called) || handle_at_once(called)) return;
  handle_computing(called);
}

bool Follower::handle_by_kind(const Called& called) {
  const auto is_meta = [&] { return device_of(*called.stack).is_meta(); };
  const Kind kind = called.facts.kind;
  if (is_of_others(called.op) && kind != Kind::Collective && !is_meta()) {
    between(called);
    return true;
  }
  switch (kind) {
    case Kind::View:
    case Kind::Query:
      run(called);
      return true;
    case Kind::Ask:
      ask(called);
      return true;
    case Kind::Dynamic:
      dynamic(called);
      is_sized_by_data_ = true;
      return true;
    case Kind::Collective:
      python_.refuse(full_name(called.op), "talks to other processes");
      return true;
    default:
      break;
  }
  // Meta tensors have no bytes, nor have the zeros of forward-mode AD.
  if (!is_meta() && called.op.operator_name().name != "aten::_efficientzerotensor") return false;
  run(called);
  return true;
}

bool Follower::handle_by_memory(const Called& called) {
  if (has_other_layout(*called.stack, called.count)) {
    dynamic(called);
    return true;
  }
  if (changes_memory(called.op)) {
    resize(called);
    return true;
  }
  const bool is_masked = has_mask(called.op, *called.stack);
  if (is_masked || geometries_.are_unmeasured(called.op)) {
    dynamic(called);
    is_sized_by_data_ |= is_masked;
    return true;
  }
  if (!copies_onto_itself(called.op, *called.stack)) return false;
  torch::jit::drop(*called.stack, 2);  // Leaves the tensor itself.
  return true;
}

bool Follower::handle_at_once(const Called& called) {
  if (may_run(called)) {
    run_and_note(called);
    return true;
  }
  if (!picks_from_lent(called)) return false;
  if (bytes_of(called) != Bytes::Hollow) {
    run_and_note(called);
  } else {
    between(called);
  }
  return true;
}

void Follower::handle_computing(const Called& called) {
  const OperatorFacts& facts = called.facts;
  const torch::jit::Stack& stack = *called.stack;
  if (refuses_strangers(called)) return;
  if (may_draw(facts, called.op, stack) && was_seeded(generator_of(called))) {
    python_.flush(full_name(called.op));
    was_seeded(generator_of(called));
  }
  if (meets_twin(stack, called.count)) python_.flush("");
  const auto lent = lent_among(stack, called.count);
  part_from_refilled(lent);
  if (writes_into_another(facts.written, lent)) {
    between(called);
    return;
  }
  if (facts.is_for_each && mode_ != Mode::Audit) count_writes(stack, called.count, facts.written);
  const int64_t recorded = recorded_;
  if (followed_ == nullptr) {
    record(called);
  } else if (!match(called)) {
    go_on_otherwise(called);
  }
  if (recorded_ > recorded && writes_lent(lent)) python_.flush("");  // So numpy sees it.
}

void Follower::ask(const Called& called) {
  const std::string name = full_name(called.op);
  if (has_guess(called)) note_guess(name);
  bool is_known =
      bytes_of(called) != Bytes::Hollow || python_.flush(name) || bytes_of(called) != Bytes::Hollow;
  // Operators without results check values (after linalg.solve, say). Guesses may fail the check.
  if (called.op.schema().returns().empty()) is_known &= !has_guess(called);
  if (is_known) {
    run(called);
  } else {
    make_up(called);
  }
}

void Follower::note_guess(const std::string& asking) {
  if (++guessed_ > kMostGuessed)
    python_.refuse(asking, "asks without end for values that are not computed yet");
}

void Follower::dynamic(const Called& called) {
  const bool is_known = bytes_of(called) != Bytes::Hollow && !has_guess(called);
  if (is_known && !writes_unseen(*called.stack, called.count, called.facts.written)) {
    run_and_note(called);
    return;
  }
  // The recorded operators run first; then this one runs on the step's own bytes.
  if (python_.flush(full_name(called.op))) {
    run_and_note(called);
  } else {
    python_.refuse(full_name(called.op), "makes a tensor whose size depends on values of the step");
  }
}

}  // namespace fitstep::torch_side

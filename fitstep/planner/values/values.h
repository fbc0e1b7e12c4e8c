// Values: every version of every storage, with the op that makes it, its readers and its end.
//
// The planner keeps or recomputes contents, not memory, so it decides about values and not about
// storages. A tick is a position in the order of ops that the planner chose:
//
//   conv  relu_   ...   relu_backward      (s,1) made at 0, read and destroyed at 1
//   s,1   s,2           reads s,2          (s,2) made at 1, read at 3
//
// An op destroys a value when it overwrites the value in place. A write of a persistent or external
// storage is always in place. A write of any other storage is in place if the op also reads the
// version before; otherwise it gets new memory and destroys nothing.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fitstep/program/program.h"

namespace fitstep {

using ValueId = Id<struct ValueTag>;
inline constexpr Tick kNever = std::numeric_limits<int32_t>::max();

struct Value {
  StorageId storage;
  int32_t version = 0;
  int64_t size_bytes = 0;  // In the arena; 0 if the storage has a home or is external.
  Tick made = -1;          // When an op writes it; -1 for content at start.
  Tick destroyed = kNever;
  Tick recomputable_until = -1;  // Last tick at which it can be recomputed; -1 for never.
  std::vector<Tick> uses;        // Ticks of the ops that read its bytes, rising.
};

// A storage has its own place, fixed before planning, if it has a home or is outside the arena.
inline bool has_home(const Storage& storage) {
  return storage.is_persistent && !is_external(storage.kind);
}
inline bool has_own_place(const Storage& storage) {
  return is_external(storage.kind) || has_home(storage);
}

class Values {
 public:
  // `order` holds every op once, so that each version is written before it is read.
  //
  // REQUIRES: the program outlives this.
  Values(const Program& program, std::span<const OpId> order);

  const Program& program() const { return *program_; }
  size_t size() const { return values_.size(); }
  Tick tick_count() const { return static_cast<Tick>(order_.size()); }
  const Value& operator[](ValueId id) const { return values_[id.index()]; }
  ValueId id(StorageId storage, int32_t version) const {
    return ValueId(first_value_[storage.index()] + version);
  }
  const Storage& storage(StorageId id) const { return program_->storages[id.index()]; }
  const Op& op_at(Tick tick) const { return program_->ops[op_id_at(tick).index()]; }
  OpId op_id_at(Tick tick) const { return order_[static_cast<size_t>(tick)]; }

  bool has_own_place(StorageId id) const {
    return fitstep::has_own_place(program_->storages[id.index()]);
  }

  // A form in which an op may run.
  struct Choice {
    int32_t form = 0;
    Tick until = kNever;  // When run again: last tick at which its inputs can be had.
  };

  // Forms for the op's first run: they write all that the op writes, with equal bits; fastest
  // first.
  std::span<const Choice> first_forms(Tick tick) const { return first_forms_.row(tick); }
  // Forms for recomputing: equal bits, and no write to a storage that has its own place; fastest
  // first.
  std::span<const Choice> again_forms(Tick tick) const { return again_forms_.row(tick); }
  // The fastest of again_forms(); -1 if there is none.
  int32_t recompute_form(Tick tick) const {
    const std::span<const Choice> forms = again_forms(tick);
    return forms.empty() ? -1 : forms.front().form;
  }
  // Whether any op can run in more than one way.
  bool has_alternatives() const { return has_alternatives_; }

 private:
  struct Rows {
    std::vector<size_t> first = {0};
    std::vector<Choice> items;

    std::span<const Choice> row(Tick tick) const {
      const auto i = static_cast<size_t>(tick);
      return std::span(items).subspan(first[i], first[i + 1] - first[i]);
    }
  };

  void find_makers_and_uses();
  void end_row(const Op& op, Rows& rows);
  void find_first_forms(Tick tick);
  void find_again_forms(Tick tick);
  bool may_run_again(const Form& form) const;
  Tick available_until(const Form& form) const;

  const Program* program_;
  std::vector<OpId> order_;
  std::vector<int32_t> first_value_;  // By storage.
  std::vector<Value> values_;
  Rows first_forms_;  // By tick.
  Rows again_forms_;
  bool has_alternatives_ = false;
};

// Whether the form works in place: it also reads the bytes of the version before its write.
bool is_in_place(const Form& form, const Write& write);

}  // namespace fitstep

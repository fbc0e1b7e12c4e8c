// Values: every version of every storage, with who makes it, who reads it and what ends it.
//
// Selection and scheduling speak of values, because keeping and recomputing is decided for contents
// and not for memory. Ticks here are positions in the order that the planner chose:
//
//   conv  relu_   ...   relu_backward      (s,1) made at 0, read and destroyed at 1
//   s,1   s,2           reads s,2          (s,2) made at 1, read at 3
//
// A value is destroyed when an op overwrites it in place: that is any write of a persistent or
// external storage, and a write that also reads the version before of any other. A write that
// covers a temporary storage gets new memory, so it destroys nothing.
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
  int64_t size_bytes = 0;  // In the arena; 0 for what has a home or is external.
  Tick made = -1;          // Of the op that writes it; -1 for content at start.
  Tick destroyed = kNever;
  Tick recomputable_until = -1;  // Last tick at which it can be made again; -1 for never.
  std::vector<Tick> uses;        // Ticks of the ops that read its bytes, rising.
};

// Whether the storage lies at a place of its own, whatever is planned: its home, or outside.
inline bool has_home(const Storage& storage) {
  return storage.is_persistent && !is_external(storage.kind);
}
inline bool has_own_place(const Storage& storage) {
  return is_external(storage.kind) || has_home(storage);
}

class Values {
 public:
  // `order` holds every op once, so that each version is written before it is read.
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

  // The fastest form in which the op at this tick can run again, with equal bits and without
  // touching anything that has its own place; -1 if there is none.
  int32_t recompute_form(Tick tick) const { return recompute_form_[static_cast<size_t>(tick)]; }

 private:
  void find_makers_and_uses();
  int32_t fastest_again(const Op& op) const;
  void find_recomputable();

  const Program* program_;
  std::vector<OpId> order_;
  std::vector<int32_t> first_value_;  // By storage.
  std::vector<Value> values_;
  std::vector<int32_t> recompute_form_;  // By tick.
};

// Whether the form reads the bytes of the version before the one it writes, so works in place.
bool is_in_place(const Form& form, const Write& write);

}  // namespace fitstep

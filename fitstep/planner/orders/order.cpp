#include "fitstep/planner/orders/order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/planner/parts.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

bool is_small_kind(OpKind kind) {
  return kind == OpKind::Elementwise || kind == OpKind::Reduction || kind == OpKind::Copy ||
         kind == OpKind::Other;
}

// Updates, and ops of small kinds whose results only updates or other eager ops read.
std::vector<char> find_eager(const Program& program, const Dependences& dependences) {
  std::vector<char> is_eager(program.ops.size(), 0);
  for (size_t i = program.ops.size(); i-- > 0;) {
    const Op& op = program.ops[i];
    if (op.must_not_move || op.is_random) continue;
    if (op.kind == OpKind::Update) {
      is_eager[i] = 1;
      continue;
    }
    const std::vector<int32_t>& consumers = dependences.consumers[i];
    if (!is_small_kind(op.kind) || consumers.empty()) continue;
    is_eager[i] = std::all_of(consumers.begin(), consumers.end(), [&](int32_t consumer) {
      return is_eager[static_cast<size_t>(consumer)] != 0;
    });
  }
  return is_eager;
}

bool frees_nothing(const Program& program, const Op& op) {
  return std::all_of(op.forms[0].reads.begin(), op.forms[0].reads.end(), [&](const Read& read) {
    return read.kind == ReadKind::ShapeOnly ||
           has_own_place(program.storages[read.storage.index()]);
  });
}

// For each eager op, the last op that is not eager and that must run before it; kNone for none.
std::vector<int32_t> find_anchors(const std::vector<char>& is_eager,
                                  const Dependences& dependences) {
  std::vector<int32_t> anchor(is_eager.size(), kNone);
  for (size_t i = 0; i < anchor.size(); ++i) {  // Dependences point forward in the given order.
    const int32_t from = is_eager[i] != 0 ? anchor[i] : static_cast<int32_t>(i);
    for (const int32_t follower : dependences.followers[i]) {
      int32_t& of_follower = anchor[static_cast<size_t>(follower)];
      of_follower = std::max(of_follower, from);
    }
  }
  return anchor;
}

// An update that needs no gradient (weight decay, a step count) could run at once. But it would end
// the old version of its parameter early, and ops that read that version could not be recomputed.
// So it waits until its followers can run, or stays after the op before it.
void delay_early(const Program& program, const std::vector<char>& is_eager,
                 Dependences& dependences) {
  const size_t count = program.ops.size();
  std::vector<int32_t> in_front(count, kNone);  // The last op before it that is not eager.
  for (size_t i = 1; i < count; ++i) {
    in_front[i] = is_eager[i - 1] != 0 ? in_front[i - 1] : static_cast<int32_t>(i) - 1;
  }
  std::vector<int32_t> anchor = find_anchors(is_eager, dependences);
  for (size_t i = count; i-- > 0;) {
    if (is_eager[i] == 0 || !frees_nothing(program, program.ops[i])) continue;
    int32_t first = in_front[i];
    for (const int32_t follower : dependences.followers[i]) {
      const auto f = static_cast<size_t>(follower);
      first = std::min(first, is_eager[f] != 0 ? anchor[f] : kNone);
    }
    if (first <= anchor[i]) continue;
    anchor[i] = first;
    dependences.followers[static_cast<size_t>(first)].push_back(static_cast<int32_t>(i));
    ++dependences.blocked_by[i];
  }
}

// Bytes that an op takes and frees, given how many readers every version still has.
class Balance {
 public:
  explicit Balance(const Program& program) : program_(program) {
    const std::vector<int32_t> last = last_versions(program);
    for (size_t i = 0; i < program.storages.size(); ++i) {
      readers_left_.emplace_back(static_cast<size_t>(last[i]) + 1, 0);
    }
    for (const Op& op : program.ops) {
      for (const Read& read : op.forms[0].reads) {
        if (read.kind != ReadKind::ShapeOnly) ++left(read);
      }
    }
  }

  // Positive: the op takes more than it frees.
  int64_t net_bytes(OpId op) const {
    const Form& form = program_.ops[op.index()].forms[0];
    int64_t net = 0;
    for (const Write& write : form.writes) {
      if (!is_in_place(form, write)) net += arena_bytes(write.storage);
    }
    for (const Read& read : form.reads) {
      if (read.kind == ReadKind::ShapeOnly) continue;
      const auto& versions = readers_left_[read.storage.index()];
      const bool is_ended = versions[static_cast<size_t>(read.version)] == 1 &&
                            static_cast<size_t>(read.version) + 1 == versions.size();
      if (is_ended) net -= arena_bytes(read.storage);
    }
    return net;
  }

  void run(OpId op) {
    for (const Read& read : program_.ops[op.index()].forms[0].reads) {
      if (read.kind != ReadKind::ShapeOnly) --left(read);
    }
  }

 private:
  int32_t& left(const Read& read) {
    return readers_left_[read.storage.index()][static_cast<size_t>(read.version)];
  }
  int64_t arena_bytes(StorageId storage) const {
    const Storage& of = program_.storages[storage.index()];
    return has_own_place(of) ? 0 : of.size_bytes;
  }

  const Program& program_;
  std::vector<std::vector<int32_t>> readers_left_;  // By storage and version.
};

using ReadyQueue = std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>>;

int32_t take(ReadyQueue& queue) {
  const int32_t op = queue.top();
  queue.pop();
  return op;
}

// The first ready op in the given order. If it takes more than it frees: the first of the next
// ready ops that frees more than it takes, if there is one.
int32_t take_freeing(const Program& program, const Balance& balance, ReadyQueue& ready) {
  constexpr size_t kLookahead = 12;
  const auto must_not_move = [&](int32_t op) {
    return program.ops[static_cast<size_t>(op)].must_not_move;
  };
  int32_t chosen = take(ready);
  if (must_not_move(chosen) || balance.net_bytes(OpId(chosen)) <= 0) return chosen;
  std::vector<int32_t> passed;
  while (!ready.empty() && passed.size() < kLookahead) {
    const int32_t other = take(ready);
    if (!must_not_move(other) && balance.net_bytes(OpId(other)) < 0) {
      passed.push_back(chosen);
      chosen = other;
      break;
    }
    passed.push_back(other);
  }
  for (const int32_t op : passed) ready.push(op);
  return chosen;
}

// Lists the ops in an order: ready eager ops always come first.
std::vector<OpId> list_order(const Program& program, bool frees_first) {
  Dependences dependences = find_dependences(program);
  const std::vector<char> is_eager = find_eager(program, dependences);
  delay_early(program, is_eager, dependences);
  Balance balance(program);
  ReadyQueue eager;
  ReadyQueue ready;
  const auto enqueue = [&](size_t op) {
    if (dependences.blocked_by[op] > 0) return;
    (is_eager[op] != 0 ? eager : ready).push(static_cast<int32_t>(op));
  };
  for (size_t i = 0; i < program.ops.size(); ++i) enqueue(i);
  std::vector<OpId> order;
  while (!eager.empty() || !ready.empty()) {
    int32_t chosen = kNone;
    if (!eager.empty()) {
      chosen = take(eager);
    } else {
      chosen = frees_first ? take_freeing(program, balance, ready) : take(ready);
    }
    balance.run(OpId(chosen));
    order.emplace_back(chosen);
    for (const int32_t follower : dependences.followers[static_cast<size_t>(chosen)]) {
      --dependences.blocked_by[static_cast<size_t>(follower)];
      enqueue(static_cast<size_t>(follower));
    }
  }
  return order;
}

// Rank of an order with everything kept: the peak, then the sum of live bytes x time. At equal
// peaks, holding gradients for less time leaves more room and more time for copies.
std::pair<int64_t, double> needs_of(const Program& program, const std::vector<OpId>& order) {
  const Values values(program, order);
  const std::optional<Schedule> schedule = make_schedule(values, keep_all(values));
  if (!schedule) return {std::numeric_limits<int64_t>::max(), 0};
  const Space space = make_space(values, *schedule);
  double area = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const Form& form = program.ops[order[i].index()].forms[0];
    area += static_cast<double>(space.live_bytes[i]) * static_cast<double>(form.time_ps);
  }
  return {space.peak_bytes, area};
}

}  // namespace

bool is_valid_order(const Program& program, const std::vector<OpId>& order) {
  std::vector<int32_t> position(program.ops.size(), kNone);
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i].is_none() || order[i].index() >= position.size()) return false;
    if (position[order[i].index()] != kNone) return false;
    position[order[i].index()] = static_cast<int32_t>(i);
  }
  if (order.size() != position.size()) return false;
  const Dependences dependences = find_dependences(program);
  for (size_t i = 0; i < position.size(); ++i) {
    for (const int32_t follower : dependences.followers[i]) {
      if (position[i] >= position[static_cast<size_t>(follower)]) return false;
    }
  }
  return true;
}

std::vector<OpId> make_order(const Program& program) { return make_orders(program).front(); }

std::vector<std::vector<OpId>> make_orders(const Program& program) {
  std::vector<std::vector<OpId>> orders(1);
  orders[0].reserve(program.ops.size());
  for (size_t i = 0; i < program.ops.size(); ++i) orders[0].emplace_back(i);
  for (const bool frees_first : {false, true}) {
    if (!has("order")) break;
    std::vector<OpId> order = list_order(program, frees_first);
    if (std::ranges::find(orders, order) == orders.end()) orders.push_back(std::move(order));
  }
  if (orders.size() > 1) {
    std::vector<std::pair<int64_t, double>> needs;
    needs.reserve(orders.size());
    for (const std::vector<OpId>& order : orders) needs.push_back(needs_of(program, order));
    const auto least = std::ranges::min_element(needs) - needs.begin();
    std::rotate(orders.begin(), orders.begin() + least, orders.begin() + least + 1);
  }
  return orders;
}

}  // namespace fitstep

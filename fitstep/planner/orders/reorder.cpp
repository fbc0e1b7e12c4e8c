#include "fitstep/planner/orders/reorder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/planner/effort.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr size_t kFarthest = 16;  // An op moves at most this many places at once.

class Reorder {
 public:
  Reorder(const Program& program, std::vector<OpId> order, int64_t limit_bytes)
      : program_(program),
        limit_bytes_(limit_bytes),
        order_(std::move(order)),
        must_precede_(program.ops.size(), std::vector<char>(program.ops.size(), 0)),
        tries_(Effort(std::ssize(program.ops)).moves_in_order()) {
    const Dependences dependences = find_dependences(program);
    for (size_t i = 0; i < program.ops.size(); ++i) {
      for (const int32_t follower : dependences.followers[i]) {
        must_precede_[i][static_cast<size_t>(follower)] = 1;
      }
    }
  }

  std::vector<OpId> run() {
    least_ = excess(order_);
    bool has_helped = least_ > 0;
    while (has_helped) {
      has_helped = false;
      for (size_t op = 0; op < order_.size() && tries_ > 0; ++op) has_helped |= move(OpId(op));
    }
    return std::move(order_);
  }

 private:
  // Moves the op to its best place. Returns whether that place is better.
  bool move(OpId op) {
    const auto from = static_cast<size_t>(std::ranges::find(order_, op) - order_.begin());
    const double before = least_;
    std::vector<OpId> best;
    for (const bool is_forward : {false, true}) {
      std::vector<OpId> moved = order_;
      for (size_t at = from, places = 0; places < kFarthest && tries_ > 0; ++places) {
        if (is_forward ? at + 1 == moved.size() : at == 0) break;
        const size_t next = is_forward ? at + 1 : at - 1;
        const OpId first = moved[std::min(at, next)];
        if (must_precede_[first.index()][moved[std::max(at, next)].index()] != 0) break;
        std::swap(moved[at], moved[next]);
        at = next;
        --tries_;
        const double found = excess(moved);
        if (found >= least_) continue;
        least_ = found;
        best = moved;
      }
    }
    if (best.empty()) return false;
    order_ = std::move(best);
    return least_ < before;
  }

  // Bytes above the limit x their time, with everything kept.
  double excess(const std::vector<OpId>& order) const {
    const Values values(program_, order);
    const std::optional<Schedule> schedule = make_schedule(values, keep_all(values));
    if (!schedule) return std::numeric_limits<double>::infinity();
    const Space space = make_space(values, *schedule);
    double sum = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const int64_t above_bytes = std::max<int64_t>(space.live_bytes[i] - limit_bytes_, 0);
      const Form& form = program_.ops[order[i].index()].forms[0];
      sum += static_cast<double>(above_bytes) * static_cast<double>(form.time_ps);
    }
    return sum;
  }

  const Program& program_;
  int64_t limit_bytes_;
  std::vector<OpId> order_;
  std::vector<std::vector<char>> must_precede_;  // By op, then by op.
  int64_t tries_;
  double least_ = 0;
};

}  // namespace

std::vector<OpId> reorder(const Program& program, std::vector<OpId> order, int64_t limit_bytes) {
  if (!Effort(std::ssize(program.ops)).is_small()) return order;
  return Reorder(program, std::move(order), limit_bytes).run();
}

}  // namespace fitstep

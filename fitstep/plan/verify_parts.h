// The parts of the verifier, in the order in which verify() runs them. Internal to plan/.
//
//   shape ---> order ---> contents ---> space ---> peak
//   ids and    what       what every    who has    how much
//   counts     precedes   read finds    a byte     at once
//
// Each part adds to Faults. verify() stops after shape or order if they found faults, because the
// parts behind rely on both.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify.h"
#include "fitstep/program/program.h"

namespace fitstep::verifier {

// 2^60: limit of a size or an offset.
inline constexpr int64_t kMostBytes = 0x1000'0000'0000'0000;
inline constexpr Tick kKernelEnd =
    std::numeric_limits<Tick>::max();  // After all positions of a kernel.

// Collects up to kMaxFaults faults and drops the rest.
class Faults {
 public:
  template <class... Arguments>
  void add(FaultKind kind, fmt::format_string<const Arguments&...> format,
           const Arguments&... arguments) {
    if (!is_full()) found_.push_back(Fault{kind, fmt::format(format, arguments...)});
  }

  bool is_full() const { return found_.size() >= kMaxFaults; }
  bool is_empty() const { return found_.empty(); }
  std::vector<Fault> take() && { return std::move(found_); }

 private:
  std::vector<Fault> found_;
};

// The input of the verifier.
struct Subject {
  const Program& program;
  const Plan& plan;
  const Limits& limits;

  const Action& action(ActionRef ref) const {
    return plan.lane(ref.lane)[static_cast<size_t>(ref.position)];
  }
  const Residency& residency(ResidencyId id) const { return plan.residencies[id.index()]; }
  const Storage& storage(ResidencyId id) const {
    return program.storages[residency(id).storage.index()];
  }
  const Form& form(const Run& run) const {
    return program.ops[run.op.index()].forms[static_cast<size_t>(run.form)];
  }
  bool is_external(ResidencyId id) const { return residency(id).tier == kExternalTier; }

  // "compute 12 (op 7 aten::relu, form 1)", "residency 3 (storage 2 a1)". The fields of the
  // action or residency may hold anything.
  std::string label(ActionRef ref) const;
  std::string label(ResidencyId id) const;
};

// Checks that every id, count, size and enumerator is in range, and that every operand is of the
// right storage. After it later parts index without checks.
void check_shape(const Subject& subject, Faults& faults);

// Happens-before: each lane's order plus the waits.
class Order {
 public:
  // If waits form a cycle: adds a Deadlock, and the sequence is incomplete.
  Order(const Subject& subject, Faults& faults);

  // All actions; each comes after all actions that end before it starts.
  const std::vector<ActionRef>& sequence() const { return sequence_; }

  // True if `first` has always ended when `second` starts.
  bool ends_before(ActionRef first, ActionRef second) const {
    return started(second)[static_cast<size_t>(first.lane)] > first.position;
  }

  // Positions of the compute lane at which a residency may be live whose life begins in `birth` and
  // ends with `release`.
  Interval beside_compute(ActionRef birth, ActionRef release) const;

 private:
  // By lane: how many actions have ended for sure when an action starts.
  using Clock = std::array<int32_t, kLaneCount>;

  const Clock& started(ActionRef ref) const {
    return started_[static_cast<size_t>(ref.lane)][static_cast<size_t>(ref.position)];
  }
  bool is_ready(const Action& action) const;
  void start(const Subject& subject, ActionRef ref);

  std::array<std::vector<Clock>, kLaneCount> started_;  // By lane and position.
  std::vector<ActionRef> sequence_;
};

// The life of a residency. Homes and external residencies live from start to end.
struct Life {
  bool is_born = false;
  bool is_released = false;
  ActionRef birth;    // Its first write; if is_born.
  ActionRef release;  // If is_released.
};

// Executes the plan on contents (storage, version, code) instead of bytes. Returns one life per
// residency.
std::vector<Life> check_contents(const Subject& subject, const Order& order, Faults& faults);

// A residency or a scratch block whose life begins in an action, and the positions of the action's
// kernel at which it is live.
struct Birth {
  ResidencyId residency;  // None for scratch.
  TierId tier = kDeviceTier;
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
  Interval live;         // Ends at kKernelEnd if it outlives the kernel.
  ResidencyId may_take;  // It may take the bytes of this operand if the operand ends here.
};

// The births in action `ref`, by live.begin; without empty and external ones.
std::vector<Birth> births(const Subject& subject, const std::vector<Life>& lives, ActionRef ref);

struct Space {
  int64_t height_bytes = 0;     // Highest end of a block on the device.
  std::vector<bool> has_taken;  // By residency: it took the bytes of an input.
};

// Checks that no two live blocks share a byte, and that alignment and capacity hold.
Space check_space(const Subject& subject, const Order& order, const std::vector<Life>& lives,
                  Faults& faults);

// The most bytes that may be live on the device at one position of one compute action.
//
// REQUIRES: no fault was found.
int64_t peak_bytes(const Subject& subject, const Order& order, const std::vector<Life>& lives,
                   const Space& space);

}  // namespace fitstep::verifier

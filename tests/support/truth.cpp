#include "tests/support/truth.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/bounds.h"
#include "fitstep/planner/orders.h"
#include "fitstep/planner/planner.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"
#include "tests/support/all_plans.h"
#include "tests/support/brute_force.h"

namespace fitstep {
namespace {

constexpr size_t kMostStates = 600'000;       // Of plans begun; beyond, the fastest is not known.
constexpr size_t kMostTimeless = 20'000'000;  // To find any plan: the least budget hangs on it.

Machine machine_with(int64_t bytes_per_s) {
  Machine machine = unit_machine();
  machine.tiers.resize(2);
  machine.links.resize(1);
  for (Rate* rate : {&machine.links[0].evict, &machine.links[0].prefetch}) {
    rate->alone_bytes_per_s = rate->both_bytes_per_s = bytes_per_s;
  }
  return machine;
}

// All on the device, where brute force has them.
std::vector<Home> homes_of(const Program& program) {
  const Homes homes = make_homes(program, {});
  std::vector<Home> result;
  for (const StorageId storage : all_homes(program)) {
    result.push_back({.storage = storage, .offset_bytes = homes.offset_bytes[storage.index()]});
  }
  return result;
}

class Asker {
 public:
  Asker(const Program& program, const std::string& policy)
      : machine_(machine_with(kTruthUnitBytes)),
        timeless_(machine_with(int64_t{1} << 60)),
        moves_{.recompute = policy != "offload", .offload = policy != "recompute"},
        values_(program, make_order(program)),
        bottom_bytes_(make_homes(program, {}).bottom_bytes),
        frontier_(
            make_frontier(program, machine_, {.homes = homes_of(program), .policy = policy})) {}

  std::vector<Truth> run() const {
    std::vector<Truth> truths;
    const int64_t end_bytes = frontier_.points.front().height_bytes - bottom_bytes_;
    int64_t room_bytes = frontier_.floor_bytes - bottom_bytes_;
    for (; room_bytes < end_bytes; room_bytes += kTruthUnitBytes) truths.push_back(ask(room_bytes));
    return truths;
  }

 private:
  Truth ask(int64_t room_bytes) const {
    Truth truth{.room_units = room_bytes / kTruthUnitBytes, .found_s = found_s(room_bytes)};
    // Often the quick one, which leaves addresses out, says that nothing can be faster.
    const LeastTime below =
        least_time(values_, machine_, {.room_bytes = room_bytes, .moves = moves_});
    if (below.is_known && !below.ps) return truth;
    if (below.is_known && truth.found_s && *truth.found_s <= *below.ps / kPicosecondsPerSecond) {
      truth.least_s = truth.found_s;
      return truth;
    }
    // Whether there is a plan at all does not depend on how long copies take.
    const LeastTime least =
        brute_force(values_, truth.found_s ? machine_ : timeless_,
                    {.room_bytes = room_bytes,
                     .unit_bytes = kTruthUnitBytes,
                     .moves = moves_,
                     .below_ps = truth.found_s.value_or(0) * kPicosecondsPerSecond,
                     .most_states = truth.found_s ? kMostStates : kMostTimeless});
    truth.is_known = least.is_known;
    truth.least_s = truth.found_s;
    if (least.ps) truth.least_s = *least.ps / kPicosecondsPerSecond;
    return truth;
  }

  std::optional<int64_t> found_s(int64_t room_bytes) const {
    const Outcome outcome = choose(frontier_, bottom_bytes_ + room_bytes);
    const Fits* fits = std::get_if<Fits>(&outcome);
    if (fits == nullptr) return std::nullopt;
    return fits->plan.certificate.predicted_ps / kPicosecondsPerSecond;
  }

  Machine machine_;
  Machine timeless_;
  Moves moves_;
  Values values_;
  int64_t bottom_bytes_;
  Frontier frontier_;
};

}  // namespace

std::vector<Truth> find_truth(const Program& program, const std::string& policy) {
  return Asker(program, policy).run();
}

}  // namespace fitstep

#include "fitstep/planner/search/codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/policies.h"
#include "fitstep/planner/request.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/coded_copies.h"
#include "fitstep/simulate/lane_clock.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

constexpr Code kCodes[] = {Code::ZeroValue, Code::Zstd};  // The quick one first.

// Time of the copies down and back, with no other copy running.
int64_t round_trip_ps(const Storage& storage, Code code, const Machine& machine) {
  int64_t sum_ps = 0;
  for (const Direction direction : {Direction::Evict, Direction::Prefetch}) {
    Work work{.is_copy = true,
              .size_bytes = storage.size_bytes,
              .route = {.upper = kDeviceTier, .lower = kDiskTier, .direction = direction}};
    if (code != Code::None) put_code(storage, code, machine, work);
    LaneClock clock(machine);
    clock.start(Lane::DiskWrite, work);
    clock.advance();
    sum_ps += clock.now_ps();
  }
  return sum_ps;
}

// The fastest code among those that save a block; Code::None if no code is faster.
Code quickest_code(const Storage& storage, const Machine& machine) {
  Code quickest = Code::None;
  int64_t least_ps = round_trip_ps(storage, Code::None, machine);
  for (const Code code : kCodes) {
    const std::optional<int64_t> bytes = coded_bytes(storage, code);
    if (!bytes || !codec_of(machine, code, kDiskTier)) continue;
    if (*bytes > storage.size_bytes - kDiskAlignmentBytes) continue;
    const int64_t time_ps = round_trip_ps(storage, code, machine);
    if (time_ps >= least_ps) continue;
    least_ps = time_ps;
    quickest = code;
  }
  return quickest;
}

// The fastest code that makes the storage an eighth smaller: kCodes is ordered by speed.
Code small_code(const Storage& storage, const Machine& machine) {
  for (const Code code : kCodes) {
    const std::optional<int64_t> bytes = coded_bytes(storage, code);
    if (!bytes || !codec_of(machine, code, kHostTier)) continue;
    if (*bytes <= storage.size_bytes / 8 * 7) return code;
  }
  return Code::None;
}

// Best compression: the largest size / coded size of any storage, in codes that plans may use
// there.
double most_times_smaller(const Program& program, const Machine& machine, TierId lower) {
  double most = 1;
  for (const Storage& storage : program.storages) {
    for (const Code code : kCodes) {
      const std::optional<int64_t> bytes = coded_bytes(storage, code);
      if (!bytes || !codec_of(machine, code, lower)) continue;
      most = std::max(most, static_cast<double>(storage.size_bytes) / static_cast<double>(*bytes));
    }
  }
  return most;
}

// Sum over all ops that are not optional, each once in its fastest form.
int64_t least_ops_ps(const Program& program, const Machine& machine) {
  int64_t sum_ps = 0;
  for (const Op& op : program.ops) {
    if (op.is_optional) continue;
    int64_t least_ps = std::numeric_limits<int64_t>::max();
    for (const Form& form : op.forms) least_ps = std::min(least_ps, form.time_ps);
    sum_ps += least_ps + machine.launch_ps;
  }
  return sum_ps;
}

// Lowers the bound so that it also holds for plans with codes on that tier.
void lower_bound(const Program& program, const Machine& machine, TierId lower,
                 Certificate& certificate) {
  const double most = most_times_smaller(program, machine, lower);
  const auto scaled_ps =
      static_cast<int64_t>(static_cast<double>(certificate.bound_ps) / most * (1 - 1e-9));
  const int64_t ops_ps = least_ops_ps(program, machine);
  if (ops_ps >= scaled_ps) {
    certificate.bound = "every op once";
    certificate.bound_ps = std::min(certificate.bound_ps, ops_ps);
  } else {
    certificate.bound = fmt::format("{}, divided by {:.2f} for codes", certificate.bound, most);
    certificate.bound_ps = scaled_ps;
  }
}

class Coding {
 public:
  Coding(const Program& program, const Machine& machine, Plan& plan)
      : program_(program), machine_(machine), plan_(plan) {
    for (size_t i = 0; i < plan.residencies.size(); ++i) {
      const Residency& residency = plan.residencies[i];
      if (residency.tier != kDiskTier || residency.code != Code::None) continue;
      const Code code = quickest_code(program.storages[residency.storage.index()], machine);
      if (code != Code::None) choices_.push_back({i, code});
    }
    std::ranges::stable_sort(choices_, [&](const Choice& a, const Choice& b) {
      return plan.residencies[a.residency].size_bytes > plan.residencies[b.residency].size_bytes;
    });
  }

  void run() {
    if (choices_.empty()) return;
    best_ps_ = simulated_ps();
    for (const Choice& choice : choices_) set(choice, true);
    const int64_t all_ps = simulated_ps();
    if (all_ps > best_ps_) {
      for (const Choice& choice : choices_) set(choice, false);
    } else {
      best_ps_ = all_ps;
    }
    flip_single_ones();
    certify();
  }

 private:
  struct Choice {
    size_t residency = 0;
    Code code = Code::None;
  };

  void set(const Choice& choice, bool is_coded) {
    plan_.residencies[choice.residency].code = is_coded ? choice.code : Code::None;
  }
  bool is_coded(const Choice& choice) const {
    return plan_.residencies[choice.residency].code != Code::None;
  }
  int64_t simulated_ps() const { return simulate(program_, plan_, machine_).total_ps; }

  // Flips the largest copies first. At equal time, fewer bytes written win.
  void flip_single_ones() {
    constexpr int64_t kMostActions = 2'000'000;  // Simulated in all tries together.
    int64_t actions = 1;
    for (const std::vector<Action>& lane : plan_.lanes) actions += std::ssize(lane);
    int64_t tries = kMostActions / actions;
    for (const Choice& choice : choices_) {
      if (tries-- <= 0) return;
      const bool was_coded = is_coded(choice);
      set(choice, !was_coded);
      const int64_t time_ps = simulated_ps();
      const bool is_better = was_coded ? time_ps < best_ps_ : time_ps <= best_ps_;
      if (is_better) best_ps_ = time_ps;
      if (!is_better) set(choice, was_coded);
    }
  }

  void certify() {
    plan_.certificate.predicted_ps = best_ps_;
    if (std::ranges::none_of(choices_, [&](const Choice& it) { return is_coded(it); })) return;
    plan_.certificate.moves += " + codes";
    lower_bound(program_, machine_, kDiskTier, plan_.certificate);
  }

  const Program& program_;
  const Machine& machine_;
  Plan& plan_;
  std::vector<Choice> choices_;  // The largest first.
  int64_t best_ps_ = 0;
};

}  // namespace

void choose_codes(const Program& program, const Machine& machine, Plan& plan) {
  Coding(program, machine, plan).run();
}

void choose_host_codes(const Program& program, const Machine& machine, Plan& plan) {
  const bool is_on_device = std::ranges::any_of(machine.codecs, &Codec::is_on_device);
  std::vector<Residency*> coded;
  for (Residency& residency : plan.residencies) {
    if (residency.tier != kHostTier || residency.is_home || residency.code != Code::None) continue;
    if (is_on_device && residency.offset_bytes % kDeviceCodeBytes != 0) continue;
    residency.code = small_code(program.storages[residency.storage.index()], machine);
    if (residency.code != Code::None) coded.push_back(&residency);
  }
  if (coded.empty()) return;
  const int64_t coded_ps = simulate(program, plan, machine).total_ps;
  if (is_on_device && coded_ps > plan.certificate.predicted_ps) {
    for (Residency* residency : coded) residency->code = Code::None;
    return;
  }
  plan.certificate.predicted_ps = coded_ps;
  if (is_on_device) lower_bound(program, machine, kHostTier, plan.certificate);
  constexpr std::string_view kSays = " + codes on the host";
  std::string& moves = plan.certificate.moves;
  if (moves.find(kSays) == std::string::npos) moves += kSays;
}

void put_codes(const Program& program, const Machine& machine, const PlanRequest& request,
               Plan& plan) {
  if (request.codes_on_host) choose_host_codes(program, machine, plan);
  const auto is_coded = [](const Residency& it) {
    return it.tier == kDiskTier && it.code != Code::None;
  };
  // A plan that was made with codes on the disk has the best ones already.
  const bool has_codes = std::ranges::any_of(plan.residencies, is_coded);
  if (request.codes_on_disk && may_code(request.policy) && !has_codes) {
    choose_codes(program, machine, plan);
  }
}

}  // namespace fitstep

#include "fitstep/simulate/live_bytes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

// The actions that begin and end a residency; not known for homes.
struct Stay {
  bool is_known = false;
  ActionRef birth;
  ActionRef release;
};

class DeviceCount {
 public:
  DeviceCount(const Program& program, const Plan& plan,
              const std::vector<Span> (&spans)[kLaneCount])
      : program_(program), plan_(plan), spans_(spans), stays_(plan.residencies.size()) {}

  DeviceBytes run() {
    find_stays();
    const std::vector<Action>& lane = plan_.lane(Lane::Compute);
    DeviceBytes result;
    std::vector<int64_t> change(lane.size() + 1, 0);
    for (size_t i = 0; i < stays_.size(); ++i) {
      const Residency& residency = plan_.residencies[i];
      if (residency.tier != kDeviceTier) continue;
      if (residency.is_home) result.home_bytes += residency.size_bytes;
      if (!stays_[i].is_known) continue;
      const Interval beside = beside_compute(stays_[i]);
      if (is_empty(beside)) continue;
      change[static_cast<size_t>(beside.begin)] += residency.size_bytes;
      change[static_cast<size_t>(beside.end)] -= residency.size_bytes;
    }
    int64_t bytes = result.home_bytes;
    for (size_t i = 0; i < lane.size(); ++i) {
      bytes += change[i];
      const auto position = static_cast<int32_t>(i);
      result.live.push_back({.position = position, .bytes = bytes + added_bytes(position)});
    }
    return result;
  }

 private:
  void find_stays() {
    for (int lane = 0; lane < kLaneCount; ++lane) {
      const std::vector<Action>& actions = plan_.lane(Lane{lane});
      for (size_t i = 0; i < actions.size(); ++i) {
        const ActionRef ref{Lane{lane}, static_cast<int32_t>(i)};
        if (actions[i].kind == Action::Kind::Copy) {
          come(actions[i].copy.target, ref);
        } else {
          for (const ResidencyId written : actions[i].run.writes) come(written, ref);
        }
        for (const ResidencyId released : actions[i].releases) {
          stays_[released.index()].release = ref;
        }
      }
    }
  }

  // A copy may fill a residency before the compute lane writes it: the earliest action counts.
  void come(ResidencyId id, ActionRef ref) {
    Stay& stay = stays_[id.index()];
    if (plan_.residencies[id.index()].is_home) return;
    if (stay.is_known && span(stay.birth).begin_ps <= span(ref).begin_ps) return;
    stay.is_known = true;
    stay.birth = ref;
  }

  const Span& span(ActionRef ref) const {
    return spans_[static_cast<size_t>(ref.lane)][static_cast<size_t>(ref.position)];
  }

  // Compute positions at which the residency is live, without the position of its birth:
  // added_bytes() counts that one.
  Interval beside_compute(const Stay& stay) const {
    const std::vector<Span>& compute = spans_[static_cast<size_t>(Lane::Compute)];
    Interval beside{.begin = stay.birth.position + 1, .end = stay.release.position + 1};
    if (stay.birth.lane != Lane::Compute) {
      const int64_t birth_ps = span(stay.birth).begin_ps;
      const auto first = std::ranges::partition_point(
          compute, [&](const Span& it) { return it.end_ps <= birth_ps; });
      beside.begin = first - compute.begin();
    }
    if (stay.release.lane != Lane::Compute) {
      const int64_t release_ps = span(stay.release).end_ps;
      const auto after = std::ranges::partition_point(
          compute, [&](const Span& it) { return it.begin_ps < release_ps; });
      beside.end = after - compute.begin();
    }
    return beside;
  }

  // Most bytes that the action adds: outputs from their requests on, scratch from request to
  // release.
  int64_t added_bytes(int32_t position) const {
    const ActionRef ref{Lane::Compute, position};
    const Action& action = plan_.lane(Lane::Compute)[static_cast<size_t>(position)];
    if (action.kind == Action::Kind::Copy) {
      return is_born_in(action.copy.target, ref) ? size_bytes(action.copy.target) : 0;
    }
    const Form& form =
        program_.ops[action.run.op.index()].forms[static_cast<size_t>(action.run.form)];
    const bool is_ordered = std::ranges::none_of(form.requests, &Request::is_any_thread);
    std::vector<std::pair<Tick, int64_t>> changes;
    for (size_t i = 0; i < form.writes.size(); ++i) {
      const ResidencyId output = action.run.writes[i];
      if (!is_born_in(output, ref) || has_taken(action, form, i)) continue;
      Tick begin = 0;
      for (const Request& request : form.requests) {
        if (is_ordered && request.output == form.writes[i].storage) begin = request.live.begin;
      }
      changes.emplace_back(begin, size_bytes(output));
    }
    for (const Request& request : form.requests) {
      if (!request.output.is_none()) continue;
      changes.emplace_back(is_ordered ? request.live.begin : 0, request.size_bytes);
      if (is_ordered) changes.emplace_back(request.live.end, -request.size_bytes);
    }
    std::ranges::sort(changes);  // At a position, releases come before requests.
    int64_t most = 0;
    int64_t live = 0;
    for (const auto& [tick, change] : changes) most = std::max(most, live += change);
    return most;
  }

  bool is_born_in(ResidencyId id, ActionRef ref) const {
    return plan_.residencies[id.index()].tier == kDeviceTier && stays_[id.index()].is_known &&
           stays_[id.index()].birth == ref;
  }

  int64_t size_bytes(ResidencyId id) const { return plan_.residencies[id.index()].size_bytes; }

  // True if the output takes the bytes of an input that ends with this action: it adds no bytes.
  bool has_taken(const Action& action, const Form& form, size_t written) const {
    const StorageId taken = form.writes[written].may_take;
    if (taken.is_none()) return false;
    const Residency& output = plan_.residencies[action.run.writes[written].index()];
    return std::ranges::any_of(action.releases, [&](ResidencyId released) {
      const Residency& input = plan_.residencies[released.index()];
      return input.storage == taken && input.tier == kDeviceTier && input.size_bytes > 0 &&
             input.offset_bytes == output.offset_bytes;
    });
  }

  const Program& program_;
  const Plan& plan_;
  const std::vector<Span> (&spans_)[kLaneCount];
  std::vector<Stay> stays_;  // By residency.
};

}  // namespace

DeviceBytes device_bytes(const Program& program, const Plan& plan,
                         const std::vector<Span> (&spans)[kLaneCount]) {
  return DeviceCount(program, plan, spans).run();
}

}  // namespace fitstep

#include "fitstep/report/device_lives.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/program.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

class Finder {
 public:
  Finder(const Program& program, const Plan& plan, const Timeline& timeline)
      : program_(program), plan_(plan), timeline_(timeline), lives_(plan.residencies.size()) {}

  std::vector<DeviceLife> run() {
    for (const Span& span : timeline_.spans) {
      if (span.lane != Lane::Compute) continue;
      begin_ps_.push_back(span.begin_ps);
      end_ps_.push_back(span.end_ps);
    }
    const auto count = static_cast<Tick>(plan_.lane(Lane::Compute).size());
    for (size_t i = 0; i < lives_.size(); ++i) {
      const Residency& residency = plan_.residencies[i];
      lives_[i] = {.residency = ResidencyId(i), .size_bytes = residency.size_bytes};
      if (residency.is_home) lives_[i].live = {.begin = 0, .end = count};
    }
    for (const Span& span : timeline_.spans) visit(span);
    std::vector<DeviceLife> result;
    std::ranges::copy_if(lives_, std::back_inserter(result), [&](const DeviceLife& life) {
      return plan_.residencies[life.residency.index()].tier == kDeviceTier && life.size_bytes > 0 &&
             life.live.begin < life.live.end;
    });
    result.insert(result.end(), scratch_.begin(), scratch_.end());
    return result;
  }

 private:
  // Ops that have ended by then, and ops that have begun before.
  Tick ended_at(int64_t ps) const {
    return static_cast<Tick>(std::ranges::upper_bound(end_ps_, ps) - end_ps_.begin());
  }
  Tick begun_before(int64_t ps) const {
    return static_cast<Tick>(std::ranges::lower_bound(begin_ps_, ps) - begin_ps_.begin());
  }
  DeviceLife& life(ResidencyId id) { return lives_[id.index()]; }

  void be_born(ResidencyId id, Tick position, bool by_copy) {
    if (id.is_none() || plan_.residencies[id.index()].is_home || is_born_[id.index()] != 0) return;
    is_born_[id.index()] = 1;
    life(id).live.begin = position;
    life(id).comes_by_copy = by_copy;
  }

  void visit(const Span& span) {
    const Action& action = plan_.lane(span.lane)[static_cast<size_t>(span.position)];
    const bool is_compute = span.lane == Lane::Compute;
    const Tick begin = is_compute ? span.position : ended_at(span.begin_ps);
    const Tick end = is_compute ? span.position + 1 : begun_before(span.end_ps);
    if (action.kind == Action::Kind::Copy) {
      be_born(action.copy.target, begin, !is_compute);
    } else {
      for (const ResidencyId written : action.run.writes) {
        be_born(written, begin + (takes_an_input(action, written) ? 1 : 0), false);
      }
      const int64_t scratch = scratch_bytes(form_of(action.run));
      if (scratch > 0) scratch_.push_back({.size_bytes = scratch, .live = {begin, begin + 1}});
    }
    for (const ResidencyId released : action.releases) {
      life(released).live.end = end;
      life(released).goes_by_copy = !is_compute;
    }
  }

  const Form& form_of(const Run& run) const {
    return program_.ops[run.op.index()].forms[static_cast<size_t>(run.form)];
  }

  bool takes_an_input(const Action& action, ResidencyId written) const {
    return std::ranges::any_of(action.releases, [&](ResidencyId released) {
      const Residency& from = plan_.residencies[released.index()];
      const Residency& to = plan_.residencies[written.index()];
      return from.tier == to.tier && from.offset_bytes == to.offset_bytes && from.size_bytes > 0;
    });
  }

  const Program& program_;
  const Plan& plan_;
  const Timeline& timeline_;
  std::vector<int64_t> begin_ps_;  // Of the compute lane's actions.
  std::vector<int64_t> end_ps_;
  std::vector<DeviceLife> lives_;
  std::vector<char> is_born_ = std::vector<char>(plan_.residencies.size(), 0);
  std::vector<DeviceLife> scratch_;
};

}  // namespace

std::vector<DeviceLife> device_lives(const Program& program, const Plan& plan,
                                     const Timeline& timeline) {
  return Finder(program, plan, timeline).run();
}

}  // namespace fitstep

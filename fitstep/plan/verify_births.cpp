// Births of an action at the positions of its kernel, and the plan's peak.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/plan/plan.h"
#include "fitstep/plan/verify_parts.h"
#include "fitstep/program/program.h"

namespace fitstep::verifier {
namespace {

// False if worker threads may make requests in any order: then all of them may be live at once.
bool is_ordered(const Form& form) {
  return std::ranges::none_of(form.requests, &Request::is_any_thread);
}

bool is_born_in(const Subject& subject, const std::vector<Life>& lives, ResidencyId id,
                ActionRef ref) {
  const Life& life = lives[id.index()];
  return life.is_born && life.birth == ref && !subject.is_external(id);
}

Birth residency_birth(const Subject& subject, ResidencyId id) {
  const Residency& residency = subject.residency(id);
  return Birth{.residency = id,
               .tier = residency.tier,
               .offset_bytes = residency.offset_bytes,
               .size_bytes = residency.size_bytes,
               .live = {.begin = 0, .end = kKernelEnd}};
}

Birth output_birth(const Subject& subject, const Run& run, size_t written) {
  const Form& form = subject.form(run);
  const Write& write = form.writes[written];
  Birth birth = residency_birth(subject, run.writes[written]);
  if (!write.may_take.is_none()) {
    for (size_t i = 0; i < form.reads.size(); ++i) {
      const bool is_data = form.reads[i].kind != ReadKind::ShapeOnly;
      if (is_data && form.reads[i].storage == write.may_take) birth.may_take = run.reads[i];
    }
  }
  for (const Request& request : form.requests) {
    if (request.output == write.storage && is_ordered(form)) birth.live.begin = request.live.begin;
  }
  return birth;
}

// Most bytes that one kernel adds at once.
int64_t most_added_bytes(const std::vector<Birth>& born, const Space& space) {
  std::vector<std::pair<Tick, int64_t>> changes;
  for (const Birth& birth : born) {
    const bool has_taken = !birth.residency.is_none() && space.has_taken[birth.residency.index()];
    if (birth.tier != kDeviceTier || has_taken) continue;  // Counted with its input.
    changes.emplace_back(birth.live.begin, birth.size_bytes);
    changes.emplace_back(birth.live.end, -birth.size_bytes);
  }
  std::ranges::sort(changes);  // At a position, ends come before begins.
  int64_t most = 0;
  int64_t live = 0;
  for (const auto& [position, change] : changes) {
    live += change;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace

std::vector<Birth> births(const Subject& subject, const std::vector<Life>& lives, ActionRef ref) {
  std::vector<Birth> born;
  const Action& action = subject.action(ref);
  if (action.kind == Action::Kind::Copy) {
    if (is_born_in(subject, lives, action.copy.target, ref)) {
      born.push_back(residency_birth(subject, action.copy.target));
    }
  } else {
    const Run& run = action.run;
    const Form& form = subject.form(run);
    for (size_t i = 0; i < run.writes.size(); ++i) {
      if (is_born_in(subject, lives, run.writes[i], ref)) {
        born.push_back(output_birth(subject, run, i));
      }
    }
    for (size_t i = 0; i < form.requests.size(); ++i) {
      const Request& request = form.requests[i];
      if (!request.output.is_none()) continue;
      born.push_back(
          Birth{.offset_bytes = run.request_offset_bytes[i],
                .size_bytes = request.size_bytes,
                .live = is_ordered(form) ? request.live : Interval{.begin = 0, .end = kKernelEnd}});
    }
  }
  std::erase_if(born, [](const Birth& birth) { return birth.size_bytes == 0; });
  std::ranges::stable_sort(born, {}, [](const Birth& birth) { return birth.live.begin; });
  return born;
}

int64_t peak_bytes(const Subject& subject, const Order& order, const std::vector<Life>& lives,
                   const Space& space) {
  const std::vector<Action>& lane = subject.plan.lane(Lane::Compute);
  int64_t live = 0;                                 // Without births of the action.
  std::vector<int64_t> change(lane.size() + 1, 0);  // Of `live`; by position.
  for (size_t i = 0; i < lives.size(); ++i) {
    const Residency& residency = subject.plan.residencies[i];
    const Life& life = lives[i];
    if (residency.tier != kDeviceTier) continue;
    if (!life.is_born) {  // A home.
      live += residency.size_bytes;
      continue;
    }
    Interval beside = order.beside_compute(life.birth, life.release);
    if (life.birth.lane == Lane::Compute) ++beside.begin;
    if (is_empty(beside)) continue;
    change[static_cast<size_t>(beside.begin)] += residency.size_bytes;
    change[static_cast<size_t>(beside.end)] -= residency.size_bytes;
  }
  int64_t most = live;
  for (size_t i = 0; i < lane.size(); ++i) {
    live += change[i];
    const ActionRef ref{Lane::Compute, static_cast<int32_t>(i)};
    most = std::max(most, live + most_added_bytes(births(subject, lives, ref), space));
  }
  return most;
}

}  // namespace fitstep::verifier

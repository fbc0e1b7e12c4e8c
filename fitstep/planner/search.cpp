#include "fitstep/planner/search.h"

#include <optional>
#include <utility>

#include "fitstep/base/check.h"

namespace fitstep {

std::vector<Candidate> search(const Task& task) {
  constexpr int32_t kPassesPerEffort = 32;
  std::optional<Candidate> kept = schedule_candidate(task, keep_all(task.values));
  FITSTEP_CHECK(kept.has_value(), "a program that keeps everything needs nothing made again");
  place_candidate(task, 0, kPassesPerEffort * task.request.effort, *kept);
  std::vector<Candidate> candidates;
  candidates.push_back(std::move(*kept));
  return candidates;
}

}  // namespace fitstep

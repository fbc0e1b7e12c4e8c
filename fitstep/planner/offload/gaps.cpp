#include "fitstep/planner/offload/gaps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"

namespace fitstep {

std::vector<Gap> find_gaps(const Values& values, const Schedule& schedule) {
  std::vector<Gap> open(schedule.stays.size());  // By stay: the gap since its last use so far.
  std::vector<char> is_open(schedule.stays.size(), 0);
  std::vector<Gap> gaps;
  const auto use = [&](int32_t operand, int32_t position, bool is_write) {
    if (operand == kNone) return;
    const auto stay = static_cast<size_t>(operand);
    const Stay& of = schedule.stays[stay];
    const bool has_home = of.home != kNone;
    if (values.has_own_place(of.storage) && !has_home) return;
    Gap& gap = open[stay];
    if (is_open[stay] != 0 && position - gap.before > 1) {
      gap.after = position;
      gaps.push_back(gap);
    }
    if (is_open[stay] == 0) {
      is_open[stay] = 1;
      gap = {.stay = operand,
             .before = kNone,
             .after = position,
             .written = kNone,
             .size_bytes = values.storage(of.storage).size_bytes,
             .has_home = has_home};
      if (has_home && !is_write) {
        gaps.push_back(gap);
        gaps.back().kind = Gap::Kind::First;
      }
    }
    gap.before = position;
    if (is_write) gap.written = position;
  };
  for (size_t i = 0; i < schedule.instances.size(); ++i) {
    const auto position = static_cast<int32_t>(i);
    const Instance& instance = schedule.instances[i];
    for (const int32_t operand : schedule.reads(instance)) use(operand, position, false);
    for (const int32_t operand : schedule.writes(instance)) use(operand, position, true);
  }
  for (size_t stay = 0; stay < open.size(); ++stay) {
    if (!open[stay].has_home) continue;
    gaps.push_back(open[stay]);
    gaps.back().kind = Gap::Kind::Last;
    gaps.back().after = static_cast<int32_t>(schedule.instances.size());
  }
  std::erase_if(gaps, [](const Gap& gap) { return gap.size_bytes == 0; });
  std::ranges::stable_sort(gaps, {}, &Gap::stay);
  return gaps;
}

}  // namespace fitstep

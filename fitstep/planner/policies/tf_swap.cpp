#include "fitstep/planner/policies/tf_swap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/machine/machine.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/policies/layers.h"
#include "fitstep/planner/policies/stage.h"
#include "fitstep/simulate/lane_clock.h"

namespace fitstep {
namespace {

// The gaps to use so that at most `limit_bytes` are live at any time; copies in flight do not
// count.
std::vector<Gap> choose(std::vector<Saved> saved, std::span<const int64_t> load_bytes,
                        int64_t limit_bytes) {
  std::ranges::stable_sort(saved, std::greater(), [](const Saved& it) { return it.gap.before; });
  LoadTree load(load_bytes);
  for (const Saved& it : saved) load.add(it.gap.before + 1, it.gap.after, -it.gap.size_bytes);
  size_t stays = 0;
  for (; stays < saved.size(); ++stays) {
    const Gap& gap = saved[stays].gap;
    if (load.most(gap.before + 1, gap.after) + gap.size_bytes > limit_bytes) break;
    load.add(gap.before + 1, gap.after, gap.size_bytes);
  }
  std::vector<Gap> leaves;
  for (size_t i = stays; i < saved.size(); ++i) leaves.push_back(saved[i].gap);
  std::ranges::stable_sort(leaves, {}, &Gap::stay);
  return leaves;
}

// Starts the copy back so that it ends, if no other copy runs, when its bytes are needed.
void add_trigger(const Machine& machine, std::span<const int64_t> start_ps, Gap& gap) {
  const int64_t copy_ps = copy_alone_ps(machine, gap.tier, Direction::Prefetch, gap.size_bytes);
  const int64_t latest_ps = start_ps[static_cast<size_t>(gap.after)] - copy_ps;
  const auto found = std::ranges::upper_bound(start_ps, latest_ps);
  const auto trigger = static_cast<int32_t>(found - start_ps.begin()) - 1;
  gap.prefetch_from = std::clamp(trigger, gap.before + 1, gap.after);
}

}  // namespace

std::vector<Candidate> plan_by_threshold(const Task& task) {
  const Stage stage(task, FormRule::Fastest, Inputs::FreedByLastUse);
  std::vector<int64_t> start_ps = {0};
  for (const int64_t ps : stage.duration_ps()) start_ps.push_back(start_ps.back() + ps);
  const std::vector<Saved>& saved = stage.layers().saved;
  int64_t threshold_bytes = stage.limit_bytes();
  std::optional<Candidate> result;
  // Copies in flight and the layout need room too, so the threshold may have to be lower.
  constexpr int32_t kMostRounds = 12;
  for (int32_t round = 0; round < kMostRounds; ++round) {
    std::vector<Gap> gaps = choose(saved, stage.load_bytes(), threshold_bytes);
    for (Gap& gap : gaps) add_trigger(task.machine, start_ps, gap);
    const size_t count = gaps.size();
    std::optional<Candidate> candidate = stage.play(
        std::move(gaps), fmt::format("offloads the {} oldest of {} saved values, each back in time "
                                     "by estimate",
                                     count, saved.size()));
    if (!candidate) break;
    const bool is_lower = !result || candidate->bytes < result->bytes;
    if (is_lower) result = std::move(candidate);
    if (stage.fits(*result) || count == saved.size()) break;
    threshold_bytes -= threshold_bytes / 32 + 1;
  }
  if (result) return {std::move(*result)};
  result = stage.play({}, "keeps everything: the tiers below have no room for more");
  FITSTEP_CHECK(result.has_value(), "a plan without copies needs no room below");
  return {std::move(*result)};
}

}  // namespace fitstep

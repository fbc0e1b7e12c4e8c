#include "fitstep/planner/policies/layrub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "fitstep/planner/candidates.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/policies/layers.h"
#include "fitstep/planner/policies/stage.h"
#include "fitstep/planner/policies/vdnn.h"

namespace fitstep {
namespace {

// The gap lasts from the end of the value's layer to the layer before the one that needs the value.
Gap from_layer_to_layer(const Layers& layers, const Saved& saved) {
  Gap gap = saved.gap;
  wait_in_layer(layers[saved.layer], gap);
  const int32_t loader = saved.needed_by - 1;
  if (loader < 0 || layers[loader].is_forward) return gap;
  gap.prefetch_from = layers[loader].begin;
  gap.after = std::min(gap.after, layers[loader].end);
  return gap;
}

}  // namespace

std::vector<Candidate> plan_shared_addresses(const Task& task, Reuse reuse) {
  const Stage stage(task, FormRule::Fastest,
                    reuse == Reuse::Inter ? Inputs::HeldByLayer : Inputs::FreedByLastUse);
  if (reuse == Reuse::Intra) {
    return {stage.keep("keeps every activation until its last use, gradients in their place")};
  }
  std::vector<Gap> gaps;
  for (const Saved& saved : stage.layers().saved) {
    const Gap gap = from_layer_to_layer(stage.layers(), saved);
    if (gap.after - gap.before >= 2) gaps.push_back(gap);
  }
  const auto count = gaps.size();
  std::optional<Candidate> candidate = stage.play(
      std::move(gaps), fmt::format("offloads {} of {} activations at the end of their layers",
                                   count, stage.layers().saved.size()));
  if (candidate) return {std::move(*candidate)};
  return {stage.keep("keeps everything: the tiers below have no room for every activation")};
}

}  // namespace fitstep

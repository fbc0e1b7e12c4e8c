#include "fitstep/planner/policies/vdnn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/policies/layers.h"
#include "fitstep/planner/policies/stage.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

bool leaves(const Saved& saved, Maps maps) {
  if (maps == Maps::None) return false;
  return saved.feeds_convolution || (maps == Maps::ConvolutionsAndPools && saved.feeds_pool);
}

std::vector<Saved> leaving(const Layers& layers, Maps maps) {
  std::vector<Saved> result;
  std::ranges::copy_if(layers.saved, std::back_inserter(result),
                       [&](const Saved& saved) { return leaves(saved, maps); });
  std::ranges::stable_sort(result, {}, [](const Saved& saved) { return saved.gap.before; });
  if (maps != Maps::AlternateConvolutions) return result;
  std::vector<Saved> every_second;
  for (size_t i = 0; i < result.size(); i += 2) every_second.push_back(result[i]);
  return every_second;
}

// Each backward layer prefetches for the nearest layer after it with values below that are not yet
// on their way, but never past a convolution. What is still missing a layer prefetches for itself.
void look_ahead(const Layers& layers, Waits waits, std::vector<Saved>& leaving) {
  std::vector<char> is_on_its_way(leaving.size(), 0);
  const auto fetch = [&](int32_t for_layer, int32_t beside) {
    bool has_found = false;
    for (size_t i = 0; i < leaving.size(); ++i) {
      if (leaving[i].needed_by != for_layer || is_on_its_way[i] != 0) continue;
      is_on_its_way[i] = 1;
      has_found = true;
      Gap& gap = leaving[i].gap;
      gap.prefetch_from = layers[beside].begin;
      if (waits == Waits::ByLayer && beside != for_layer) {
        gap.after = std::min(gap.after, layers[beside].end);
      }
    }
    return has_found;
  };
  for (int32_t now = 0; now < layers.count(); ++now) {
    if (layers[now].is_forward) continue;
    fetch(now, now);
    for (int32_t next = now + 1; next < layers.count() && !layers[next].is_forward; ++next) {
      if (fetch(next, now) || layers[next].kind == OpKind::Convolution) break;
    }
  }
}

const char* name_of(Maps maps) {
  switch (maps) {
    case Maps::None:
      return "nothing";
    case Maps::Convolutions:
      return "the inputs of convolutions";
    case Maps::AlternateConvolutions:
      return "the input of every second convolution";
    case Maps::ConvolutionsAndPools:
      return "the inputs of convolutions and pools";
  }
  return "";
}

std::string say(const Layers& layers, Maps maps, Waits waits, size_t count) {
  if (maps == Maps::None) return "keeps everything";
  const int32_t convolutions = layers.count_of(OpKind::Convolution);
  const int32_t pools = layers.count_of(OpKind::Pool);
  if (convolutions == 0 && (maps != Maps::ConvolutionsAndPools || pools == 0)) {
    return fmt::format("keeps everything: there is no convolution{} here",
                       maps == Maps::ConvolutionsAndPools ? " and no pool" : "");
  }
  return fmt::format("offloads {} ({} of them; {} layers), waits {}", name_of(maps), count,
                     convolutions + (maps == Maps::ConvolutionsAndPools ? pools : 0),
                     waits == Waits::ByLayer ? "at the end of each layer" : "where it must");
}

// If the tiers below are too small for the policy's values, keeps everything instead.
Candidate play(const Stage& stage, Maps maps, Waits waits) {
  Moved moved = move_maps(stage.layers(), maps, waits);
  const Evicts evicts = waits == Waits::Deferred ? Evicts::BesideLastUse : Evicts::BehindLastUse;
  std::optional<Candidate> candidate = stage.play(std::move(moved.gaps), moved.says, evicts);
  if (!candidate) {
    candidate = stage.play(
        {}, "keeps everything: the tiers below have no room for " + std::string(name_of(maps)));
  }
  FITSTEP_CHECK(candidate.has_value(), "a plan without copies needs no room below");
  return std::move(*candidate);
}

void add_to_says(Candidate& candidate, const char* what) { candidate.says += what; }

}  // namespace

void wait_in_layer(const Layer& layer, Gap& gap) {
  const int32_t use = gap.before;
  if (gap.written >= use) return;  // The use writes it, so no copy can start before its end.
  gap.evict_beside = gap.written < layer.begin ? layer.begin : use;
  gap.before = layer.end - 1 > use ? layer.end - 1 : layer.end;
}

Moved move_maps(const Layers& layers, Maps maps, Waits waits) {
  std::vector<Saved> found = leaving(layers, maps);
  if (waits == Waits::ByLayer) {
    for (Saved& saved : found) wait_in_layer(layers[saved.layer], saved.gap);
  }
  look_ahead(layers, waits, found);
  // A map that would come back at once is not evicted.
  std::erase_if(found, [](const Saved& it) { return it.gap.after - it.gap.before < 2; });
  Moved moved{.gaps = {}, .says = say(layers, maps, waits, found.size())};
  for (const Saved& saved : found) moved.gaps.push_back(saved.gap);
  std::ranges::stable_sort(moved.gaps, {}, &Gap::stay);
  return moved;
}

std::vector<Candidate> plan_maps(const Task& task, FormRule forms, Maps maps, Waits waits) {
  return {play(Stage(task, forms, Inputs::HeldByLayer), maps, waits)};
}

std::vector<Candidate> plan_dynamically(const Task& task, Waits waits) {
  const Stage small(task, FormRule::LeastScratch, Inputs::HeldByLayer);
  Candidate least = play(small, Maps::ConvolutionsAndPools, waits);
  if (!small.fits(least)) {
    add_to_says(least, ", the least that this policy knows");
    return {std::move(least)};
  }
  const Stage fast(task, FormRule::Fastest, Inputs::HeldByLayer);
  for (const Maps maps : {Maps::None, Maps::Convolutions, Maps::ConvolutionsAndPools}) {
    Candidate candidate = play(fast, maps, waits);
    if (!fast.fits(candidate)) continue;
    add_to_says(candidate, ", fastest forms");
    return {std::move(candidate)};
  }
  for (const Maps maps : {Maps::Convolutions, Maps::ConvolutionsAndPools}) {
    const Candidate base = play(small, maps, waits);
    std::optional<Candidate> candidate = small.with_faster_forms(base);
    if (!candidate || !small.fits(*candidate)) continue;
    add_to_says(*candidate, ", the fastest forms that fit");
    return {std::move(*candidate)};
  }
  add_to_says(least, ", forms of least scratch");
  return {std::move(least)};
}

}  // namespace fitstep

#include "fitstep/planner/policies/policies.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/planner/candidates.h"
#include "fitstep/planner/policies/layrub.h"
#include "fitstep/planner/policies/recompute_cheap.h"
#include "fitstep/planner/policies/stage.h"
#include "fitstep/planner/policies/tf_swap.h"
#include "fitstep/planner/policies/vdnn.h"
#include "fitstep/planner/request.h"
#include "fitstep/planner/schedule.h"

namespace fitstep {
namespace {

template <FormRule forms, Maps maps, Waits waits>
std::vector<Candidate> maps_policy(const Task& task) {
  return plan_maps(task, forms, maps, waits);
}

template <Waits waits>
std::vector<Candidate> dyn_policy(const Task& task) {
  return plan_dynamically(task, waits);
}

template <Reuse reuse>
std::vector<Candidate> layrub_policy(const Task& task) {
  return plan_shared_addresses(task, reuse);
}

std::vector<Candidate> cheap_policy(const Task& task) {
  const Selection selection = drop_cheap(task.values);
  std::optional<Candidate> candidate = schedule_candidate(task, selection);
  const bool recomputes = candidate && candidate->schedule.recompute_count > 0;
  if (!recomputes) candidate = schedule_candidate(task, keep_all(task.values));
  FITSTEP_CHECK(candidate.has_value(), "a program that keeps everything can be scheduled");
  candidate->says = recomputes ? "recomputes what cheap ops make"
                               : "keeps everything: nothing saved comes from a cheap op";
  place_candidate(task, task.request.capacity_bytes, 8 * layout_passes(*candidate), *candidate);
  return {std::move(*candidate)};
}

constexpr FormRule kM = FormRule::LeastScratch;
constexpr FormRule kP = FormRule::Fastest;
constexpr Maps kConv = Maps::Convolutions;
constexpr Maps kAll = Maps::ConvolutionsAndPools;
constexpr Maps kSecond = Maps::AlternateConvolutions;
constexpr Waits kLayer = Waits::ByLayer;
constexpr Waits kLate = Waits::Deferred;

constexpr auto kPolicies = std::to_array<Policy>({
    {"vdnn-none-m", true, maps_policy<kM, Maps::None, kLayer>},
    {"vdnn-none-p", true, maps_policy<kP, Maps::None, kLayer>},
    {"vdnn-conv-m", true, maps_policy<kM, kConv, kLayer>},
    {"vdnn-conv-p", true, maps_policy<kP, kConv, kLayer>},
    {"vdnn-all-m", true, maps_policy<kM, kAll, kLayer>},
    {"vdnn-all-p", true, maps_policy<kP, kAll, kLayer>},
    {"vdnn-dyn", true, dyn_policy<kLayer>},
    {"vdnn++-conv-m", true, maps_policy<kM, kConv, kLate>, true},
    {"vdnn++-conv-p", true, maps_policy<kP, kConv, kLate>, true},
    {"vdnn++-all-m", true, maps_policy<kM, kAll, kLate>, true},
    {"vdnn++-all-p", true, maps_policy<kP, kAll, kLate>, true},
    {"vdnn++-alternate-m", true, maps_policy<kM, kSecond, kLate>, true},
    {"vdnn++-alternate-p", true, maps_policy<kP, kSecond, kLate>, true},
    {"vdnn++-dyn", true, dyn_policy<kLate>, true},
    {"tf-swap", true, plan_by_threshold},
    {"layrub-intra", true, layrub_policy<Reuse::Intra>},
    {"layrub-inter", true, layrub_policy<Reuse::Inter>},
    {"layrub", true, layrub_policy<Reuse::Hybrid>},
    {"recompute-cheap", false, cheap_policy},
});

constexpr std::array kOurs = {"auto", "none", "recompute", "offload", "recompute-sqrt"};

constexpr auto kNames = [] {
  std::array<const char*, kOurs.size() + kPolicies.size()> names{};
  std::ranges::copy(kOurs, names.begin());
  std::ranges::transform(kPolicies, names.begin() + kOurs.size(), &Policy::name);
  return names;
}();

}  // namespace

std::span<const char* const> policy_names() { return kNames; }

std::span<const Policy> published_policies() { return kPolicies; }

const Policy* find_policy(const std::string& name) {
  const auto* found =
      std::ranges::find_if(kPolicies, [&](const Policy& policy) { return name == policy.name; });
  return found == kPolicies.end() ? nullptr : found;
}

bool may_code(const std::string& name) {
  const Policy* published = find_policy(name);
  return published == nullptr || published->encodes;
}

}  // namespace fitstep

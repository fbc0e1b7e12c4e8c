#include "fitstep/planner/policies/layers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/interval.h"
#include "fitstep/planner/offload.h"
#include "fitstep/planner/recompute.h"
#include "fitstep/planner/schedule.h"
#include "fitstep/planner/values.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

bool names_a_layer(OpKind kind) {
  return kind == OpKind::Convolution || kind == OpKind::Matmul || kind == OpKind::Attention ||
         kind == OpKind::Pool || kind == OpKind::Activation || kind == OpKind::Normalisation;
}

class Finder {
 public:
  Finder(const Values& values, const Schedule& schedule)
      : values_(values), schedule_(schedule), phases_(find_phases(values)) {}

  Layers run() {
    for (int32_t i = 0; i < count(); ++i) parts_.push_back(part_of(i));
    find_neighbours();
    split();
    find_fed();
    for (const Gap& gap : find_gaps(values_, schedule_)) add(gap);
    return std::move(layers_);
  }

 private:
  // Each phase has two parts, even numbers are forward; instances outside of phases have none.
  static constexpr int32_t kOutside = -1;
  static bool is_forward(int32_t part) { return part != kOutside && part % 2 == 0; }

  int32_t count() const { return static_cast<int32_t>(schedule_.instances.size()); }
  const Instance& instance(int32_t i) const { return schedule_.instances[index(i)]; }
  const Op& op(int32_t i) const { return values_.op_at(instance(i).tick); }
  bool is_named_by(int32_t i) const {
    return instance(i).kind == Instance::Kind::Op && names_a_layer(op(i).kind);
  }
  static size_t index(int32_t i) { return static_cast<size_t>(i); }

  int32_t part_of(int32_t i) const {
    const Tick tick = instance(i).tick;
    for (size_t p = 0; p < phases_.size(); ++p) {
      if (tick < phases_[p].begin || tick >= phases_[p].end) continue;
      return 2 * static_cast<int32_t>(p) + (tick > phases_[p].turn ? 1 : 0);
    }
    return kOutside;
  }

  // The gradients of a layer's weights and inputs may be separate ops, with updates in between. The
  // backward layer ends with the last of these ops.
  void find_neighbours() {
    is_last_.assign(schedule_.instances.size(), 0);
    int32_t next = kNone;
    for (int32_t i = count(); i-- > 0;) {
      if (!is_named_by(i)) continue;
      const bool is_one =
          next != kNone && parts_[index(i)] == parts_[index(next)] && op(i).kind == op(next).kind &&
          op(i).source.module == op(next).source.module && !op(i).source.module.empty();
      is_last_[index(i)] = is_one ? 0 : 1;
      next = i;
    }
  }

  void split() {
    bool has_ended = true;
    for (int32_t i = 0; i < count(); ++i) {
      const int32_t part = parts_[index(i)];
      const bool is_named = is_named_by(i);
      const bool is_new_part = i == 0 || part != parts_[index(i - 1)];
      if (is_new_part || has_ended || (is_forward(part) && is_named)) {
        layers_.layers.push_back({.begin = i, .end = i, .is_forward = is_forward(part)});
      }
      Layer& layer = layers_.layers.back();
      if (is_named) layer.kind = op(i).kind;
      layer.end = i + 1;
      has_ended = !is_forward(part) && is_named && is_last_[index(i)] != 0;
      layer_of_.push_back(layers_.count() - 1);
    }
  }

  // The inputs of a copy, for example of a concatenation, feed what the copy's result feeds.
  void find_fed() {
    feeds_convolution_.assign(schedule_.stays.size(), 0);
    feeds_pool_.assign(schedule_.stays.size(), 0);
    for (int32_t i = count(); i-- > 0;) {
      if (!is_forward(parts_[index(i)]) || instance(i).kind != Instance::Kind::Op) continue;
      const OpKind kind = op(i).kind;
      bool convolves = kind == OpKind::Convolution;
      bool pools = kind == OpKind::Pool;
      if (kind == OpKind::Copy) {
        for (const int32_t stay : schedule_.writes(instance(i))) {
          convolves |= feeds_convolution_[index(stay)] != 0;
          pools |= feeds_pool_[index(stay)] != 0;
        }
      }
      for (const int32_t stay : schedule_.reads(instance(i))) {
        if (stay == kNone) continue;
        if (convolves) feeds_convolution_[index(stay)] = 1;
        if (pools) feeds_pool_[index(stay)] = 1;
      }
    }
  }

  void add(const Gap& gap) {
    if (gap.kind != Gap::Kind::Idle || gap.has_home) return;
    const int32_t from = parts_[index(gap.before)];
    if (!is_forward(from) || parts_[index(gap.after)] != from + 1) return;
    layers_.saved.push_back({.gap = gap,
                             .layer = layer_of_[index(gap.before)],
                             .needed_by = layer_of_[index(gap.after)],
                             .feeds_convolution = feeds_convolution_[index(gap.stay)] != 0,
                             .feeds_pool = feeds_pool_[index(gap.stay)] != 0});
  }

  const Values& values_;
  const Schedule& schedule_;
  const std::vector<Phase> phases_;
  std::vector<int32_t> parts_;           // By instance.
  std::vector<int32_t> layer_of_;        // By instance.
  std::vector<char> is_last_;            // By instance: whether it is its layer's last naming op.
  std::vector<char> feeds_convolution_;  // By stay.
  std::vector<char> feeds_pool_;
  Layers layers_;
};

}  // namespace

int32_t Layers::count_of(OpKind kind) const {
  return static_cast<int32_t>(std::ranges::count_if(
      layers, [&](const Layer& layer) { return layer.is_forward && layer.kind == kind; }));
}

Layers find_layers(const Values& values, const Schedule& schedule) {
  return Finder(values, schedule).run();
}

}  // namespace fitstep

#include "tests/programs/layer_program.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

class LayerMaker {
 public:
  explicit LayerMaker(const std::vector<LayerOfTest>& layers) : layers_(layers) {}

  Program run() {
    program_.name = "layers";
    program_.calls.push_back({.text = "call"});
    const StorageId input = add("x", StorageKind::Input, 1);
    program_.storages[input.index()].has_content_at_start = true;
    maps_.push_back({.storage = input, .version = 0});
    for (size_t i = 1; i <= layers_.size(); ++i) add_forward(i);
    gradient_ = add("g", StorageKind::Temporary, layer(layers_.size()).units);
    add_op("loss", "", OpKind::Reduction, {maps_.back()}, {{gradient_, 1}}, {});
    for (size_t i = layers_.size(); i >= 1; --i) add_backward(i);
    const Status status = validate(program_);
    FITSTEP_CHECK(status.has_value(), status.error().message);
    return std::move(program_);
  }

 private:
  const LayerOfTest& layer(size_t i) const { return layers_[i - 1]; }

  StorageId add(const std::string& name, StorageKind kind, int64_t units) {
    program_.storages.push_back(
        {.name = name, .size_bytes = units * kLayerUnitBytes, .kind = kind});
    return StorageId(program_.storages.size() - 1);
  }

  void add_forward(size_t i) {
    const StorageId map = add(fmt::format("y{}", i), StorageKind::Temporary, layer(i).units);
    const std::string module = fmt::format("layer{}", i);
    add_op(fmt::format("f{}", i), module, layer(i).kind, {maps_.back()}, {{map, 1}}, layer(i));
    maps_.push_back({.storage = map, .version = 1});
    if (layer(i).kind != OpKind::Convolution) return;
    add_op(fmt::format("r{}", i), module, OpKind::Activation, {maps_.back()}, {{map, 2}}, {});
    maps_.back().version = 2;
  }

  void add_backward(size_t i) {
    const std::string module = fmt::format("layer{}", i);
    Read gradient{.storage = gradient_, .version = 1};
    if (layer(i).kind == OpKind::Convolution) {
      Read sign = maps_[i];
      sign.kind = ReadKind::SignOnly;
      add_op(fmt::format("dr{}", i), module, OpKind::Activation, {sign, gradient}, {{gradient_, 2}},
             {});
      gradient.version = 2;
    }
    if (layer(i).kind != OpKind::Pool) {
      const StorageId weight = add(fmt::format("dw{}", i), StorageKind::Output, 1);
      add_op(fmt::format("dw{}", i), module, layer(i).kind, {maps_[i - 1], gradient}, {{weight, 1}},
             layer(i));
    }
    if (i == 1) return;
    gradient_ = add(fmt::format("g{}", i - 1), StorageKind::Temporary, layer(i - 1).units);
    add_op(fmt::format("dx{}", i), module, layer(i).kind, {gradient}, {{gradient_, 1}}, layer(i));
  }

  void add_op(const std::string& name, const std::string& module, OpKind kind,
              const std::vector<Read>& reads, const std::vector<Write>& writes,
              const LayerOfTest& cost) {
    const bool takes_time = kind == cost.kind && !module.empty();
    Form form{.call = CallId(int32_t{0}),
              .reads = reads,
              .writes = writes,
              .time_ps = takes_time ? cost.seconds * kPicosecondsPerSecond : 0,
              .is_pure = true};
    Op op{.name = name, .source = {.module = module}, .kind = kind, .forms = {form}};
    if (takes_time && cost.scratch_units > 0) {
      op.forms[0].requests.push_back(
          {.size_bytes = cost.scratch_units * kLayerUnitBytes, .live = {.begin = 0, .end = 1}});
      op.forms.push_back(form);
      op.forms[1].name = "small";
      op.forms[1].time_ps *= 2;
    }
    program_.ops.push_back(std::move(op));
  }

  const std::vector<LayerOfTest>& layers_;
  Program program_;
  std::vector<Read> maps_;  // By layer, from the input; as last written.
  StorageId gradient_;
};

}  // namespace

Program layer_program(const std::vector<LayerOfTest>& layers) { return LayerMaker(layers).run(); }

Machine layer_machine() {
  const Rate rate{.alone_bytes_per_s = kLayerUnitBytes, .both_bytes_per_s = kLayerUnitBytes};
  return {.name = "a unit per second",
          .tiers = {{.name = "device"}, {.name = "host"}},
          .links = {{.upper = TierId(0), .evict = rate, .prefetch = rate}}};
}

}  // namespace fitstep

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/program/program.h"
#include "tests/programs/net_maker.h"
#include "tests/programs/net_program.h"

namespace fitstep {
namespace {

class ResnetMaker {
 public:
  explicit ResnetMaker(const ResnetOptions& options)
      : options_(options), net_(fmt::format("resnet50 batch {}", options.batch)) {}

  Program run() {
    const int64_t pixels = options_.pixels;
    const StorageId images =
        net_.add("images", StorageKind::Input, options_.batch * 3 * pixels * pixels);
    int64_t side = pixels / 2;
    const Unit stem = unit(images, 3, 64, 7, side, true);
    side /= 2;
    const StorageId pooled = net_.temporary("pooled", options_.batch * 64 * side * side);
    const StorageId places = net_.temporary("places", 2 * options_.batch * 64 * side * side);
    net_.op("max_pool", OpKind::Pool, {stem.output}, {pooled, places});
    std::vector<Bottleneck> blocks;
    StorageId x = pooled;
    int64_t channels = 64;
    const int64_t depths[] = {3, 4, 6, 3};
    for (int64_t stage = 0; stage < 4; ++stage) {
      for (int64_t i = 0; i < depths[stage]; ++i) {
        const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        blocks.push_back(bottleneck(x, channels, int64_t{64} << stage, side, stride));
        side /= stride;
        channels = 4 * (int64_t{64} << stage);
        x = blocks.back().output;
      }
    }
    StorageId gradient = head(x, channels, side);
    for (size_t i = blocks.size(); i-- > 0;) gradient = backward(blocks[i], gradient);
    const StorageId d_stem = net_.temporary("d pooled", net_.floats(stem.output));
    net_.op("max_pool_backward", OpKind::Pool, {gradient, stem.output, places}, {d_stem});
    unit_backward(stem, d_stem, false);
    net_.update_all(1);
    return std::move(net_).take();
  }

 private:
  struct Unit {  // Convolution, batch norm, and mostly relu in place.
    StorageId input, weight, convolved, scale, shift, mean, rstd, output;
    int64_t flops = 0;
    bool has_relu = false;
  };
  struct Bottleneck {
    Unit first, second, third, shortcut;
    bool has_shortcut = false;
    StorageId input, output;
  };

  Unit unit(StorageId input, int64_t in, int64_t out, int64_t kernel, int64_t side, bool has_relu) {
    Unit unit{.input = input, .has_relu = has_relu};
    const int64_t size = options_.batch * out * side * side;
    unit.flops = 2 * size * in * kernel * kernel;
    unit.weight = net_.add("weight", StorageKind::Parameter, in * out * kernel * kernel);
    unit.convolved = net_.temporary("convolved", size);
    Op& convolution = net_.op("convolution", OpKind::Convolution, {input, unit.weight},
                              {unit.convolved}, unit.flops);
    net_.add_scratch(convolution, net_.size_bytes(unit.weight));
    unit.scale = net_.add("scale", StorageKind::Parameter, out);
    unit.shift = net_.add("shift", StorageKind::Parameter, out);
    const StorageId running = net_.add("running", StorageKind::Buffer, 2 * out);
    unit.output = net_.temporary("normed", size);
    unit.mean = net_.temporary("mean", out);
    unit.rstd = net_.temporary("rstd", out);
    Op& norm = net_.op("native_batch_norm", OpKind::Normalisation,
                       {unit.convolved, unit.scale, unit.shift, running},
                       {unit.output, unit.mean, unit.rstd, running});
    net_.add_quiet_form(norm, 3, 3, false);
    if (has_relu) net_.op("relu_", OpKind::Activation, {unit.output}, {unit.output});
    return unit;
  }

  StorageId unit_backward(const Unit& unit, StorageId gradient, bool needs_input) {
    StorageId d_normed = gradient;
    if (unit.has_relu) {
      d_normed = net_.temporary("d relu", net_.floats(unit.output));
      net_.op("threshold_backward", OpKind::Activation, {gradient, unit.output}, {d_normed});
    }
    const StorageId d_convolved = net_.temporary("d convolved", net_.floats(unit.convolved));
    const StorageId d_scale = net_.gradient_of(unit.scale);
    const StorageId d_shift = net_.gradient_of(unit.shift);
    net_.op("native_batch_norm_backward", OpKind::Normalisation,
            {d_normed, unit.convolved, unit.scale, unit.mean, unit.rstd},
            {d_convolved, d_scale, d_shift});
    const StorageId d_weight = net_.gradient_of(unit.weight);
    net_.op("convolution_backward weight", OpKind::Convolution, {d_convolved, unit.input},
            {d_weight}, unit.flops);
    if (!needs_input) return {};
    const StorageId d_input = net_.temporary("d input", net_.floats(unit.input));
    net_.op("convolution_backward input", OpKind::Convolution, {d_convolved, unit.weight},
            {d_input}, unit.flops);
    return d_input;
  }

  Bottleneck bottleneck(StorageId x, int64_t in, int64_t width, int64_t side, int64_t stride) {
    Bottleneck block{.input = x};
    const int64_t small = side / stride;
    block.first = unit(x, in, width, 1, side, true);
    block.second = unit(block.first.output, width, width, 3, small, true);
    block.third = unit(block.second.output, width, 4 * width, 1, small, false);
    block.has_shortcut = in != 4 * width;
    if (block.has_shortcut) block.shortcut = unit(x, in, 4 * width, 1, small, false);
    block.output = block.third.output;
    net_.op("add_", OpKind::Elementwise,
            {block.output, block.has_shortcut ? block.shortcut.output : x}, {block.output});
    net_.op("relu_", OpKind::Activation, {block.output}, {block.output});
    return block;
  }

  StorageId backward(const Bottleneck& block, StorageId gradient) {
    const StorageId d_relu = net_.temporary("d relu", net_.floats(block.output));
    net_.op("threshold_backward", OpKind::Activation, {gradient, block.output}, {d_relu});
    StorageId d = unit_backward(block.third, d_relu, true);
    d = unit_backward(block.second, d, true);
    d = unit_backward(block.first, d, true);
    const StorageId other =
        block.has_shortcut ? unit_backward(block.shortcut, d_relu, true) : d_relu;
    net_.op("add_", OpKind::Elementwise, {d, other}, {d});
    return d;
  }

  StorageId head(StorageId x, int64_t channels, int64_t side) {
    const StorageId pooled = net_.temporary("pooled", options_.batch * channels);
    net_.op("mean", OpKind::Pool, {x}, {pooled});
    const StorageId weight = net_.add("fc", StorageKind::Parameter, channels * 1000);
    const StorageId logits = net_.temporary("logits", options_.batch * 1000);
    const int64_t flops = 2 * options_.batch * channels * 1000;
    net_.op("addmm", OpKind::Matmul, {pooled, weight}, {logits}, flops);
    const StorageId loss = net_.add("loss", StorageKind::Output, 1);
    const StorageId d_logits = net_.temporary("d logits", options_.batch * 1000);
    net_.op("cross_entropy", OpKind::Other, {logits}, {loss, d_logits});
    const StorageId d_pooled = net_.temporary("d pooled", options_.batch * channels);
    net_.op("mm", OpKind::Matmul, {d_logits, weight}, {d_pooled}, flops);
    net_.op("mm", OpKind::Matmul, {d_logits, pooled}, {net_.gradient_of(weight)}, flops);
    const StorageId d_x = net_.temporary("d x", options_.batch * channels * side * side);
    net_.op("mean_backward", OpKind::Pool, {d_pooled}, {d_x});
    return d_x;
  }

  const ResnetOptions options_;
  NetMaker net_;
};

}  // namespace

Program resnet50_program(const ResnetOptions& options) { return ResnetMaker(options).run(); }

}  // namespace fitstep

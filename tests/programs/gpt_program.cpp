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

struct Linear {
  StorageId input, weight, bias, output;
  int64_t rows = 0, in = 0, out = 0;
};

class GptMaker {
 public:
  explicit GptMaker(const GptOptions& options)
      : options_(options),
        net_(fmt::format("gpt {} layers", options.layers)),
        rows_(options.batch * options.tokens) {}

  Program run() {
    generator_ = net_.add_bytes("generator", StorageKind::Generator, 16);
    const StorageId tokens = net_.add("tokens", StorageKind::Input, 2 * rows_);
    embedding_ =
        net_.add("embedding", StorageKind::Parameter, options_.vocabulary * options_.width);
    StorageId x = net_.temporary("x", rows_ * options_.width);
    net_.op("embedding", OpKind::Other, {tokens, embedding_}, {x});
    std::vector<Layer> layers;
    for (int64_t i = 0; i < options_.layers; ++i) {
      layers.push_back(forward(x));
      x = layers.back().end;
    }
    StorageId gradient = head(x, tokens);
    for (size_t i = layers.size(); i-- > 0;) gradient = backward(layers[i], gradient);
    const StorageId d_embedding = net_.gradient_of(embedding_);
    net_.op("embedding_backward", OpKind::Other, {gradient, tokens}, {d_embedding});
    net_.update_all(2);
    return std::move(net_).take();
  }

 private:
  struct Norm {
    StorageId input, weight, bias, mean, rstd, output;
  };
  struct Layer {
    Norm norm1, norm2;
    Linear qkv, projection, up, down;
    StorageId attended, lse, mask1, middle, gelu, mask2, end;
  };

  Norm norm(StorageId input) {
    Norm norm{.input = input};
    norm.weight = net_.add("norm.weight", StorageKind::Parameter, options_.width);
    norm.bias = net_.add("norm.bias", StorageKind::Parameter, options_.width);
    norm.output = net_.temporary("norm", rows_ * options_.width);
    norm.mean = net_.temporary("mean", rows_);
    norm.rstd = net_.temporary("rstd", rows_);
    net_.op("native_layer_norm", OpKind::Normalisation, {input, norm.weight, norm.bias},
            {norm.output, norm.mean, norm.rstd});
    return norm;
  }

  StorageId norm_backward(const Norm& norm, StorageId gradient) {
    const StorageId d_input = net_.temporary("d norm", rows_ * options_.width);
    const StorageId d_weight = net_.gradient_of(norm.weight);
    const StorageId d_bias = net_.gradient_of(norm.bias);
    net_.op("native_layer_norm_backward", OpKind::Normalisation,
            {gradient, norm.input, norm.mean, norm.rstd, norm.weight, norm.bias},
            {d_input, d_weight, d_bias});
    return d_input;
  }

  Linear linear(StorageId input, int64_t in, int64_t out) {
    Linear linear{.input = input, .rows = rows_, .in = in, .out = out};
    linear.weight = net_.add("weight", StorageKind::Parameter, in * out);
    linear.bias = net_.add("bias", StorageKind::Parameter, out);
    linear.output = net_.temporary("linear", rows_ * out);
    net_.op("addmm", OpKind::Matmul, {linear.bias, input, linear.weight}, {linear.output},
            2 * rows_ * in * out);
    return linear;
  }

  StorageId linear_backward(const Linear& linear, StorageId gradient) {
    const int64_t flops = 2 * rows_ * linear.in * linear.out;
    const StorageId d_input = net_.temporary("d linear", rows_ * linear.in);
    net_.op("mm", OpKind::Matmul, {gradient, linear.weight}, {d_input}, flops);
    net_.op("mm", OpKind::Matmul, {gradient, linear.input}, {net_.gradient_of(linear.weight)},
            flops);
    net_.op("sum", OpKind::Reduction, {gradient}, {net_.gradient_of(linear.bias)});
    return d_input;
  }

  StorageId dropout(StorageId input, StorageId& mask) {
    const StorageId output = net_.temporary("dropout", net_.floats(input));
    mask = net_.add_bytes("mask", StorageKind::Temporary, net_.floats(input));
    Op& op =
        net_.op("native_dropout", OpKind::Random, {input, generator_}, {output, mask, generator_});
    op.is_random = true;
    net_.add_quiet_form(op, 2, 2, true);
    return output;
  }

  StorageId sum_of(StorageId a, StorageId b) {
    const StorageId sum = net_.temporary("sum", net_.floats(a));
    net_.op("add", OpKind::Elementwise, {a, b}, {sum});
    return sum;
  }

  Layer forward(StorageId x) {
    Layer layer;
    const int64_t width = options_.width;
    layer.norm1 = norm(x);
    layer.qkv = linear(layer.norm1.output, width, 3 * width);
    layer.attended = net_.temporary("attended", rows_ * width);
    layer.lse = net_.temporary("lse", rows_ * 8);
    net_.op("attention", OpKind::Attention, {layer.qkv.output}, {layer.attended, layer.lse},
            4 * rows_ * options_.tokens * width);
    layer.projection = linear(layer.attended, width, width);
    layer.middle = sum_of(x, dropout(layer.projection.output, layer.mask1));
    layer.norm2 = norm(layer.middle);
    layer.up = linear(layer.norm2.output, width, 4 * width);
    layer.gelu = net_.temporary("gelu", rows_ * 4 * width);
    net_.op("gelu", OpKind::Activation, {layer.up.output}, {layer.gelu}, rows_ * 4 * width * 20);
    layer.down = linear(layer.gelu, 4 * width, width);
    layer.end = sum_of(layer.middle, dropout(layer.down.output, layer.mask2));
    return layer;
  }

  StorageId backward(const Layer& layer, StorageId gradient) {
    const int64_t width = options_.width;
    const StorageId d_mlp = net_.temporary("d mlp", rows_ * width);
    net_.op("dropout_backward", OpKind::Elementwise, {gradient, layer.mask2}, {d_mlp});
    const StorageId d_gelu = linear_backward(layer.down, d_mlp);
    const StorageId d_up = net_.temporary("d up", rows_ * 4 * width);
    net_.op("gelu_backward", OpKind::Activation, {d_gelu, layer.up.output}, {d_up},
            rows_ * 4 * width * 30);
    const StorageId d_middle =
        sum_of(gradient, norm_backward(layer.norm2, linear_backward(layer.up, d_up)));
    const StorageId d_attention = net_.temporary("d attention", rows_ * width);
    net_.op("dropout_backward", OpKind::Elementwise, {d_middle, layer.mask1}, {d_attention});
    const StorageId d_attended = linear_backward(layer.projection, d_attention);
    const StorageId d_qkv = net_.temporary("d qkv", rows_ * 3 * width);
    net_.op("attention_backward", OpKind::Attention,
            {d_attended, layer.qkv.output, layer.attended, layer.lse}, {d_qkv},
            10 * rows_ * options_.tokens * width);
    return sum_of(d_middle, norm_backward(layer.norm1, linear_backward(layer.qkv, d_qkv)));
  }

  StorageId head(StorageId x, StorageId tokens) {
    const Norm last = norm(x);
    const int64_t size = rows_ * options_.vocabulary;
    const int64_t flops = 2 * size * options_.width;
    const StorageId logits = net_.temporary("logits", size);
    net_.op("mm", OpKind::Matmul, {last.output, embedding_}, {logits}, flops);
    const StorageId log_softmax = net_.temporary("log_softmax", size);
    net_.op("log_softmax", OpKind::Other, {logits}, {log_softmax});
    const StorageId loss = net_.add("loss", StorageKind::Output, 1);
    net_.op("nll_loss", OpKind::Reduction, {log_softmax, tokens}, {loss});
    const StorageId d_nll = net_.temporary("d nll", size);
    net_.op("nll_loss_backward", OpKind::Other, {tokens}, {d_nll});
    const StorageId d_logits = net_.temporary("d logits", size);
    net_.op("log_softmax_backward", OpKind::Other, {d_nll, log_softmax}, {d_logits});
    const StorageId d_last = net_.temporary("d last", rows_ * options_.width);
    net_.op("mm", OpKind::Matmul, {d_logits, embedding_}, {d_last}, flops);
    net_.op("mm", OpKind::Matmul, {d_logits, last.output}, {net_.gradient_of(embedding_)}, flops);
    return norm_backward(last, d_last);
  }

  const GptOptions options_;
  NetMaker net_;
  const int64_t rows_;
  StorageId generator_;
  StorageId embedding_;
};

}  // namespace

Program gpt_program(const GptOptions& options) { return GptMaker(options).run(); }

}  // namespace fitstep

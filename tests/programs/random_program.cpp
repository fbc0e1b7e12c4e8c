#include "tests/programs/random_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/base/result.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

// The standard fixes the numbers of this engine but not those of its distributions.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}

  // One of low .. high.
  int64_t number(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int64_t percent) { return number(1, 100) <= percent; }

 private:
  std::mt19937_64 engine_;
};

// What the backward half needs to know about a layer.
struct Layer {
  StorageId input;
  StorageId output;
  StorageId weight;
  StorageId saved;  // A mask or statistics; none where the layer has none.
  StorageId skip;   // Added to the output; none without a skip.
  bool is_in_place = false;
};

class Builder {
 public:
  Builder(uint64_t seed, const RandomProgramOptions& options) : dice_(seed), options_(options) {
    program_.name = fmt::format("random-{}", seed);
  }

  Program build() {
    if (options_.with_random_ops) {
      generator_ = add_storage("generator", StorageKind::Generator, 16);
    }
    const StorageId input = add_storage("x", StorageKind::Input, size());
    constant_ = add_storage("one", StorageKind::Constant, options_.unit_bytes);
    StorageId last = input;
    for (int32_t i = 0; i < options_.layers; ++i) {
      layers_.push_back(add_forward(i, last));
      last = layers_.back().output;
    }
    StorageId gradient = add_loss(last);
    for (int32_t i = options_.layers - 1; i >= 0; --i) gradient = add_backward(i, gradient);
    for (Op& update : late_updates_) add_op(std::move(update));
    record_lifetimes();
    const Status status = validate(program_);
    FITSTEP_CHECK(status.has_value(), status.error().message);
    return std::move(program_);
  }

 private:
  int64_t size() { return dice_.number(1, options_.most_bytes) * options_.unit_bytes; }

  StorageId add_storage(const std::string& name, StorageKind kind, int64_t size_bytes) {
    Storage storage{.name = name, .size_bytes = size_bytes, .kind = kind};
    storage.is_persistent = kind == StorageKind::Parameter || kind == StorageKind::Buffer ||
                            kind == StorageKind::OptimizerState;
    storage.has_content_at_start = storage.is_persistent || kind == StorageKind::Input ||
                                   kind == StorageKind::Constant || kind == StorageKind::Generator;
    storage.is_visible = storage.has_content_at_start || kind == StorageKind::Output;
    program_.storages.push_back(storage);
    version_.push_back(0);
    return StorageId(program_.storages.size() - 1);
  }

  StorageId add_temporary(const std::string& name) {
    const bool is_zero = dice_.chance(4);
    return add_storage(name, StorageKind::Temporary, is_zero ? 0 : size());
  }

  CallId add_call(const std::string& text) {
    for (size_t i = 0; i < program_.calls.size(); ++i) {
      if (program_.calls[i].text == text) return CallId(i);
    }
    program_.calls.push_back(Call{text});
    return CallId(program_.calls.size() - 1);
  }

  Read read(StorageId storage, ReadKind kind = ReadKind::Data) const {
    return Read{.storage = storage, .version = version_[storage.index()], .kind = kind};
  }
  Write write(StorageId storage) const {
    return Write{.storage = storage, .version = version_[storage.index()] + 1};
  }

  Op make_op(const std::string& name, OpKind kind, std::vector<Read> reads,
             const std::vector<StorageId>& outputs) {
    Op op{.name = name, .kind = kind};
    op.source = Source{.module = "net", .file = "net.py", .line = 10};
    Form form{.call = add_call(name), .reads = std::move(reads)};
    for (const StorageId output : outputs) form.writes.push_back(write(output));
    form.time_ps = dice_.number(1, 9) * kUnitPs;
    op.flops = dice_.number(0, 1000);
    op.bytes = dice_.number(0, 1000);
    op.forms.push_back(std::move(form));
    return op;
  }

  // Appends the op; what it writes has a new version from here on.
  void add_op(Op op) {
    for (Form& form : op.forms) add_requests(form);
    for (const Write& written : op.forms.front().writes) {
      version_[written.storage.index()] = written.version;
    }
    program_.ops.push_back(std::move(op));
  }

  // Fresh outputs are requested, most of the time, with scratch before, between and after them.
  void add_requests(Form& form) {
    Tick position = 0;
    const auto add_scratch = [&] {
      if (!options_.with_scratch || !dice_.chance(25)) return;
      const Interval live{.begin = position, .end = position + dice_.number(1, 3)};
      form.requests.push_back(Request{.size_bytes = size(), .live = live});
      ++position;
    };
    const bool is_any_thread = dice_.chance(5);
    add_scratch();
    for (const Write& written : form.writes) {
      const bool is_fresh = written.version == 1 && !starts_with_content(written.storage);
      if (!is_fresh || dice_.chance(20)) continue;
      form.requests.push_back(
          Request{.size_bytes = program_.storages[written.storage.index()].size_bytes,
                  .live = {.begin = position, .end = position + 8},
                  .output = written.storage});
      ++position;
      add_scratch();
    }
    for (Request& request : form.requests) request.is_any_thread = is_any_thread;
  }

  bool starts_with_content(StorageId storage) const {
    return program_.storages[storage.index()].has_content_at_start;
  }

  // A second way to run the op: other scratch, perhaps other bits.
  void maybe_add_alternative(Op& op) {
    if (!dice_.chance(15)) return;
    Form form = op.forms.front();
    form.name = "alternative";
    form.call = add_call(op.name + " alternative");
    form.has_equal_bits = dice_.chance(50);
    form.time_ps = dice_.number(1, 9) * kUnitPs;
    op.forms.push_back(std::move(form));
  }

  Layer add_forward(int32_t index, StorageId input) {
    Layer layer{.input = input};
    layer.weight = add_storage(fmt::format("w{}", index), StorageKind::Parameter, size());
    if (index > 1 && dice_.chance(30)) {
      layer.skip = layers_[static_cast<size_t>(dice_.number(0, index - 2))].output;
    }
    layer.output = add_temporary(fmt::format("a{}", index));
    Op op = make_op(fmt::format("f{}", index), OpKind::Matmul, {read(input), read(layer.weight)},
                    {layer.output});
    if (!layer.skip.is_none()) op.forms.front().reads.push_back(read(layer.skip));
    if (dice_.chance(20)) op.forms.front().reads.push_back(read(constant_));
    if (dice_.chance(20)) {  // A dead output.
      op.forms.front().writes.push_back(write(add_temporary(fmt::format("dead{}", index))));
    }
    op.forms.front().is_pure = dice_.chance(90);
    op.repeat = index;
    maybe_add_alternative(op);
    add_op(std::move(op));

    const int64_t shape = dice_.number(0, 4);
    if (shape == 0) add_activation(index, layer);
    if (shape == 1) add_normalisation(index, layer);
    if (shape == 2 && options_.with_random_ops) add_dropout(index, layer);
    if (shape == 3) add_elementwise(index, layer);
    return layer;
  }

  // relu_: a0 version 1 becomes version 2.
  void add_activation(int32_t index, Layer& layer) {
    Op op = make_op(fmt::format("relu_{}", index), OpKind::Activation, {read(layer.output)},
                    {layer.output});
    op.forms.front().is_pure = dice_.chance(70);
    layer.is_in_place = true;
    add_op(std::move(op));
  }

  // Default: also moves the running statistics. Pure: leaves them alone.
  void add_normalisation(int32_t index, Layer& layer) {
    const StorageId running =
        add_storage(fmt::format("running{}", index), StorageKind::Buffer, size());
    const StorageId output = add_temporary(fmt::format("n{}", index));
    layer.saved = add_temporary(fmt::format("statistics{}", index));
    Op op = make_op(fmt::format("norm{}", index), OpKind::Normalisation,
                    {read(layer.output), read(running)}, {output, layer.saved, running});
    Form pure = op.forms.front();
    pure.name = "pure";
    pure.call = add_call(op.name + " pure");
    pure.reads.pop_back();
    pure.writes.pop_back();
    pure.is_pure = true;
    op.forms.push_back(std::move(pure));
    add_op(std::move(op));
    layer.output = output;
  }

  // Default: draws from the generator and moves it on. Restoring: draws the same again.
  void add_dropout(int32_t index, Layer& layer) {
    const StorageId output = add_temporary(fmt::format("d{}", index));
    layer.saved = add_temporary(fmt::format("mask{}", index));
    Op op = make_op(fmt::format("dropout{}", index), OpKind::Random,
                    {read(layer.output), read(generator_)}, {output, layer.saved, generator_});
    op.is_random = true;
    if (dice_.chance(85)) {
      Form restoring = op.forms.front();
      restoring.name = "restoring";
      restoring.writes.pop_back();
      restoring.restores_generator = true;
      op.forms.push_back(std::move(restoring));
    }
    add_op(std::move(op));
    layer.output = output;
  }

  // Its output may take the address of its input.
  void add_elementwise(int32_t index, Layer& layer) {
    const int64_t size_bytes = program_.storages[layer.output.index()].size_bytes;
    const StorageId output =
        add_storage(fmt::format("e{}", index), StorageKind::Temporary, size_bytes);
    Op op =
        make_op(fmt::format("gelu{}", index), OpKind::Elementwise, {read(layer.output)}, {output});
    op.forms.front().writes.front().may_take = layer.output;
    op.forms.front().is_pure = true;
    op.must_not_move = dice_.chance(10);
    add_op(std::move(op));
    layer.saved = dice_.chance(50) ? layer.output : StorageId();
    layer.output = output;
  }

  // The loss, sometimes scaled in place, and the gradient of the last activation.
  StorageId add_loss(StorageId last) {
    const StorageId loss = add_storage("loss", StorageKind::Output, options_.unit_bytes);
    const StorageId gradient = add_gradient(last);
    add_op(make_op("loss", OpKind::Reduction, {read(last)}, {loss}));
    if (dice_.chance(30)) add_op(make_op("scale_", OpKind::Elementwise, {read(loss)}, {loss}));
    Op seed =
        make_op("loss_backward", OpKind::Reduction, {read(last, ReadKind::ShapeOnly)}, {gradient});
    seed.forms.front().is_pure = true;
    add_op(std::move(seed));
    return gradient;
  }

  StorageId add_gradient(StorageId activation) {
    const Storage& storage = program_.storages[activation.index()];
    return add_storage("d_" + storage.name, StorageKind::Temporary, storage.size_bytes);
  }

  // b: gradient of the output -> gradient of the input and of the weight, as one op or as two.
  StorageId add_backward(int32_t index, StorageId gradient) {
    const Layer& layer = layers_[static_cast<size_t>(index)];
    const auto known = std::ranges::find(skipped_, layer.output, &Skipped::activation);
    if (known != skipped_.end() && dice_.chance(80)) {  // += in place.
      const StorageId sum = known->gradient;
      Op op = make_op(fmt::format("add_{}", index), OpKind::Elementwise,
                      {read(sum), read(gradient)}, {sum});
      op.forms.front().is_pure = dice_.chance(70);
      add_op(std::move(op));
      gradient = sum;
    }
    const bool is_shape_only = dice_.chance(20);
    const Read activation = read(layer.input, is_shape_only ? ReadKind::ShapeOnly : ReadKind::Data);
    const StorageId weight_gradient =
        add_storage(fmt::format("g{}", index), StorageKind::Gradient, bytes_of(layer.weight));
    const StorageId input_gradient = add_gradient(layer.input);
    std::vector<Read> reads = {read(gradient), activation, read(layer.weight)};
    if (!layer.saved.is_none()) reads.push_back(read(layer.saved));
    if (layer.is_in_place) reads.push_back(read(layer.output, ReadKind::SignOnly));
    if (dice_.chance(50)) {
      Op joint = make_op(fmt::format("b{}", index), OpKind::Matmul, reads,
                         {input_gradient, weight_gradient});
      joint.forms.front().is_pure = true;
      add_op(std::move(joint));
    } else {
      add_op(make_op(fmt::format("wgrad{}", index), OpKind::Matmul, reads, {weight_gradient}));
      Op data = make_op(fmt::format("dgrad{}", index), OpKind::Matmul, reads, {input_gradient});
      data.forms.front().is_pure = true;
      add_op(std::move(data));
    }
    if (!layer.skip.is_none() && !is_skipped(layer.skip)) add_skip_gradient(layer.skip, gradient);
    if (options_.with_updates) add_update(index, layer.weight, weight_gradient);
    return input_gradient;
  }

  struct Skipped {
    StorageId activation;
    StorageId gradient;
  };

  bool is_skipped(StorageId activation) const {
    return std::ranges::count(skipped_, activation, &Skipped::activation) > 0;
  }

  void add_skip_gradient(StorageId activation, StorageId gradient) {
    const StorageId copy = add_gradient(activation);
    Op op = make_op("skip", OpKind::Copy, {read(gradient)}, {copy});
    op.forms.front().is_pure = true;
    add_op(std::move(op));
    skipped_.push_back(Skipped{.activation = activation, .gradient = copy});
  }

  // w -= m, with or without optimizer state, now or after the last layer's backward.
  void add_update(int32_t index, StorageId weight, StorageId gradient) {
    if (dice_.chance(15)) {  // Gradients of several calls add up in a home.
      const StorageId sum =
          add_storage(fmt::format("sum{}", index), StorageKind::Gradient, bytes_of(weight));
      program_.storages[sum.index()].is_persistent = true;
      program_.storages[sum.index()].has_content_at_start = true;
      add_op(make_op("accumulate_", OpKind::Elementwise, {read(sum), read(gradient)}, {sum}));
      gradient = sum;
    }
    std::vector<Read> reads = {read(weight), read(gradient)};
    std::vector<StorageId> outputs = {weight};
    if (dice_.chance(60)) {
      const StorageId moment =
          add_storage(fmt::format("m{}", index), StorageKind::OptimizerState, bytes_of(weight));
      reads.push_back(read(moment));
      outputs.push_back(moment);
    }
    Op op = make_op(fmt::format("update{}", index), OpKind::Update, reads, outputs);
    if (dice_.chance(30)) {
      add_op(std::move(op));
    } else {
      late_updates_.push_back(std::move(op));
    }
  }

  int64_t bytes_of(StorageId storage) const {
    return program_.storages[storage.index()].size_bytes;
  }

  // Plain PyTorch frees a storage at its last use or somewhat later.
  void record_lifetimes() {
    const auto ticks = static_cast<Tick>(program_.ops.size());
    const std::vector<Interval> lifetime = lifetimes(program_);
    for (size_t i = 0; i < lifetime.size(); ++i) {
      Interval recorded = lifetime[i];
      if (!is_empty(recorded)) recorded.end = std::min(ticks, recorded.end + dice_.number(0, 3));
      program_.storages[i].recorded = recorded;
    }
  }

  static constexpr int64_t kUnitPs = 1'000'000'000'000;

  Dice dice_;
  RandomProgramOptions options_;
  Program program_;
  std::vector<int32_t> version_;  // Of every storage after the last op so far.
  std::vector<Layer> layers_;
  std::vector<Skipped> skipped_;
  std::vector<Op> late_updates_;
  StorageId generator_;
  StorageId constant_;
};

}  // namespace

Program random_program(uint64_t seed, const RandomProgramOptions& options) {
  return Builder(seed, options).build();
}

}  // namespace fitstep

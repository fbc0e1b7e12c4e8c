#include "tests/programs/chain_program.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/base/result.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

class ChainMaker {
 public:
  explicit ChainMaker(const ChainOptions& options) : options_(options) {}

  Program run() {
    program_.name = "chain";
    program_.calls.push_back({.text = "call"});
    const StorageId input = add("x", StorageKind::Input);
    program_.storages[input.index()].has_content_at_start = true;
    std::vector<StorageId> activation = {add("a0", StorageKind::Temporary)};
    std::vector<StorageId> weight = {StorageId()};
    add_op("load", OpKind::Copy, {{.storage = input, .version = 0}}, {{activation[0], 1}}, false);
    for (int32_t i = 1; i <= options_.layers; ++i) {
      activation.push_back(add(fmt::format("a{}", i), StorageKind::Temporary));
      std::vector<Read> reads = {{.storage = activation[index(i - 1)], .version = 1}};
      weight.push_back(options_.with_weights ? add_weight(i) : StorageId());
      if (options_.with_weights) reads.push_back({.storage = weight.back(), .version = 0});
      add_op(fmt::format("f{}", i), OpKind::Matmul, reads, {{activation.back(), 1}}, true);
    }
    StorageId gradient = add(fmt::format("g{}", options_.layers), StorageKind::Temporary);
    add_op("loss", OpKind::Reduction, {{.storage = activation.back(), .version = 1}},
           {{gradient, 1}}, true);
    for (int32_t i = options_.layers; i >= 1; --i) {
      gradient = add_backward(i, activation, weight[index(i)], gradient);
    }
    for (auto& [name, update] : late_updates_) add_update(name, update.first, update.second);
    const Status status = validate(program_);
    FITSTEP_CHECK(status.has_value(), status.error().message);
    return std::move(program_);
  }

 private:
  static size_t index(int32_t i) { return static_cast<size_t>(i); }

  StorageId add(std::string name, StorageKind kind) {
    program_.storages.push_back(
        {.name = std::move(name), .size_bytes = options_.unit_bytes, .kind = kind});
    return StorageId(program_.storages.size() - 1);
  }

  StorageId add_weight(int32_t layer) {
    const StorageId weight = add(fmt::format("w{}", layer), StorageKind::Parameter);
    program_.storages[weight.index()].is_persistent = true;
    program_.storages[weight.index()].has_content_at_start = true;
    return weight;
  }

  StorageId add_backward(int32_t layer, const std::vector<StorageId>& activation, StorageId weight,
                         StorageId gradient) {
    const StorageId next = add(fmt::format("g{}", layer - 1), StorageKind::Temporary);
    std::vector<Read> reads = {{.storage = activation[index(layer)], .version = 1},
                               {.storage = activation[index(layer - 1)], .version = 1},
                               {.storage = gradient, .version = 1}};
    if (!weight.is_none()) reads.push_back({.storage = weight, .version = 0});
    std::vector<Write> writes = {{next, 1}};
    if (!weight.is_none()) {
      writes.push_back({add(fmt::format("dw{}", layer), StorageKind::Gradient), 1});
    }
    add_op(fmt::format("b{}", layer), OpKind::Matmul, reads, writes, true);
    if (!weight.is_none()) {
      const std::string name = fmt::format("u{}", layer);
      if (options_.updates_last) {
        late_updates_.push_back({name, {weight, writes[1].storage}});
      } else {
        add_update(name, weight, writes[1].storage);
      }
    }
    return next;
  }

  void add_update(const std::string& name, StorageId weight, StorageId gradient) {
    add_op(name, OpKind::Update,
           {{.storage = weight, .version = 0}, {.storage = gradient, .version = 1}}, {{weight, 1}},
           false);
  }

  void add_op(std::string name, OpKind kind, std::vector<Read> reads, std::vector<Write> writes,
              bool is_pure) {
    Op op{.name = std::move(name), .source = {}, .kind = kind, .forms = {}};
    op.forms.push_back({.call = CallId(int32_t{0}),
                        .reads = std::move(reads),
                        .writes = std::move(writes),
                        .requests = {},
                        .time_ps = options_.op_ps,
                        .is_pure = is_pure});
    program_.ops.push_back(std::move(op));
  }

  const ChainOptions options_;
  Program program_;
  std::vector<std::pair<std::string, std::pair<StorageId, StorageId>>> late_updates_;
};

}  // namespace

Program chain_program(const ChainOptions& options) { return ChainMaker(options).run(); }

}  // namespace fitstep

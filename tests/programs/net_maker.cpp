#include "tests/programs/net_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/check.h"
#include "fitstep/base/id.h"
#include "fitstep/base/interval.h"
#include "fitstep/base/result.h"
#include "fitstep/program/program.h"

namespace fitstep {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kFlopsPerUs = 100'000;  // 100 Gflop/s.
constexpr int64_t kBytesPerUs = 10'000;   // 10 GB/s.
constexpr int64_t kPsPerUs = 1'000'000;

}  // namespace

NetMaker::NetMaker(std::string name) {
  program_.name = std::move(name);
  program_.calls.push_back({.text = "call"});
}

StorageId NetMaker::add(const std::string& name, StorageKind kind, int64_t floats) {
  return add_bytes(name, kind, floats * kFloatBytes);
}

StorageId NetMaker::add_bytes(const std::string& name, StorageKind kind, int64_t size_bytes) {
  Storage storage{.name = name, .size_bytes = size_bytes, .kind = kind};
  storage.is_persistent = kind == StorageKind::Parameter || kind == StorageKind::Buffer ||
                          kind == StorageKind::OptimizerState;
  storage.has_content_at_start =
      storage.is_persistent || kind == StorageKind::Input || kind == StorageKind::Generator;
  program_.storages.push_back(storage);
  version_.push_back(0);
  return StorageId(program_.storages.size() - 1);
}

StorageId NetMaker::temporary(const std::string& name, int64_t floats) {
  return add(name, StorageKind::Temporary, floats);
}

Op& NetMaker::op(const std::string& name, OpKind kind, const std::vector<StorageId>& reads,
                 const std::vector<StorageId>& writes, int64_t flops) {
  Op op{.name = name, .source = {}, .kind = kind, .flops = flops, .forms = {}};
  Form form{.call = CallId(int32_t{0}), .reads = {}, .writes = {}, .requests = {}};
  std::vector<StorageId> touched = reads;
  for (const StorageId read : reads) form.reads.push_back({read, version_[read.index()]});
  for (const StorageId write : writes) {
    form.writes.push_back({write, ++version_[write.index()]});
    const bool is_in_place = std::find(reads.begin(), reads.end(), write) != reads.end();
    if (is_in_place) continue;
    touched.push_back(write);
    const auto position = static_cast<Tick>(form.requests.size());
    form.requests.push_back({.size_bytes = size_bytes(write),
                             .live = {.begin = position, .end = position + 1},
                             .output = write});
  }
  for (const StorageId storage : touched) op.bytes += size_bytes(storage);
  form.time_ps = std::max(flops * kPsPerUs / kFlopsPerUs, op.bytes * kPsPerUs / kBytesPerUs);
  form.is_pure = std::none_of(writes.begin(), writes.end(), [&](StorageId write) {
    return program_.storages[write.index()].is_persistent;
  });
  op.forms.push_back(std::move(form));
  program_.ops.push_back(std::move(op));
  return program_.ops.back();
}

void NetMaker::add_scratch(Op& op, int64_t size_bytes) {
  std::vector<Request>& requests = op.forms[0].requests;
  const auto position = static_cast<Tick>(requests.size());
  requests.push_back({.size_bytes = size_bytes, .live = {.begin = position, .end = position + 1}});
}

void NetMaker::add_quiet_form(Op& op, size_t reads, size_t writes, bool restores) {
  op.forms[0].is_pure = false;
  Form form = op.forms[0];
  form.name = restores ? "restoring" : "pure";
  form.reads.resize(reads);
  form.writes.resize(writes);
  std::erase_if(form.requests, [&](const Request& request) {
    return !request.output.is_none() &&
           std::none_of(form.writes.begin(), form.writes.end(),
                        [&](const Write& write) { return write.storage == request.output; });
  });
  form.is_pure = !restores;
  form.restores_generator = restores;
  op.forms.push_back(std::move(form));
}

StorageId NetMaker::gradient_of(StorageId weight) {
  const StorageId gradient = add_bytes("d " + program_.storages[weight.index()].name,
                                       StorageKind::Gradient, size_bytes(weight));
  gradients_.emplace_back(weight, gradient);
  return gradient;
}

void NetMaker::update_all(int states) {
  for (const auto& [weight, gradient] : gradients_) {
    std::vector<StorageId> state;
    for (int i = 0; i < states; ++i) {
      state.push_back(
          add_bytes(fmt::format("state{}", i), StorageKind::OptimizerState, size_bytes(weight)));
      op("lerp_", OpKind::Update, {state.back(), gradient}, {state.back()});
    }
    const StorageId step = add_bytes("step", StorageKind::Temporary, size_bytes(weight));
    op("sqrt", OpKind::Update, {state.back()}, {step});
    op("addcdiv_", OpKind::Update, {weight, state.front(), step}, {weight});
  }
}

Program NetMaker::take() && {
  const Status status = validate(program_);
  FITSTEP_CHECK(status.has_value(), status.error().message);
  return std::move(program_);
}

}  // namespace fitstep

#include "fitstep/report/kind_bytes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/report/device_lives.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

// By storage: what updates read and write by the way.
std::vector<char> find_gradients(const Program& program) {
  std::vector<char> is_gradient(program.storages.size(), 0);
  for (const Op& op : program.ops) {
    if (op.kind != OpKind::Update) continue;
    for (const Read& read : op.forms[0].reads) is_gradient[read.storage.index()] = 1;
    for (const Write& write : op.forms[0].writes) is_gradient[write.storage.index()] = 1;
  }
  return is_gradient;
}

}  // namespace

const char* to_string(ByteKind kind) {
  switch (kind) {
    case ByteKind::Weights:
      return "weights";
    case ByteKind::WeightGradients:
      return "weight_gradients";
    case ByteKind::States:
      return "states";
    case ByteKind::Maps:
      return "maps";
    case ByteKind::MapGradients:
      return "map_gradients";
    case ByteKind::Workspace:
      return "workspace";
  }
  return "";
}

std::vector<ByteKind> byte_kinds(const Program& program) {
  const std::vector<char> is_gradient = find_gradients(program);
  std::vector<ByteKind> kinds(program.storages.size(), ByteKind::Maps);
  std::vector<char> is_known(program.storages.size(), 0);
  for (size_t i = 0; i < kinds.size(); ++i) {
    const StorageKind kind = program.storages[i].kind;
    is_known[i] = kind == StorageKind::Temporary ? 0 : 1;
    if (kind == StorageKind::Parameter || kind == StorageKind::Buffer) kinds[i] = ByteKind::Weights;
    if (kind == StorageKind::Gradient) kinds[i] = ByteKind::WeightGradients;
    if (kind == StorageKind::OptimizerState) kinds[i] = ByteKind::States;
  }
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (is_gradient[i] == 0 || is_known[i] != 0) continue;
    kinds[i] = ByteKind::WeightGradients;
    is_known[i] = 1;
  }
  bool is_backward = false;
  for (const Op& op : program.ops) {
    is_backward |= op.name.find("backward") != std::string::npos;
    for (const Write& write : op.forms[0].writes) {
      const size_t i = write.storage.index();
      if (is_known[i] != 0) continue;
      is_known[i] = 1;
      if (is_backward) kinds[i] = ByteKind::MapGradients;
    }
  }
  return kinds;
}

std::vector<KindBytes> bytes_by_kind(const Program& program, const Plan& plan,
                                     const Timeline& timeline) {
  const std::vector<ByteKind> kinds = byte_kinds(program);
  const size_t count = plan.lane(Lane::Compute).size();
  std::vector<KindBytes> bytes(count + 1, KindBytes{});
  for (const DeviceLife& life : device_lives(program, plan, timeline)) {
    const auto kind = static_cast<size_t>(
        life.residency.is_none() ? ByteKind::Workspace
                                 : kinds[plan.residencies[life.residency.index()].storage.index()]);
    bytes[static_cast<size_t>(life.live.begin)].at(kind) += life.size_bytes;
    bytes[std::min(static_cast<size_t>(life.live.end), count)].at(kind) -= life.size_bytes;
  }
  for (size_t i = 1; i < bytes.size(); ++i) {
    for (size_t kind = 0; kind < kByteKinds; ++kind) bytes[i].at(kind) += bytes[i - 1].at(kind);
  }
  bytes.pop_back();
  return bytes;
}

BytesOverTime over_time(const std::vector<KindBytes>& bytes, const Timeline& timeline,
                        const std::vector<ByteKind>& kinds) {
  BytesOverTime result;
  double byte_ps = 0;
  int64_t last_ps = 0;
  for (const Span& span : timeline.spans) {
    if (span.lane != Lane::Compute) continue;
    int64_t sum_bytes = 0;
    for (const ByteKind kind : kinds) {
      sum_bytes += bytes[static_cast<size_t>(span.position)].at(static_cast<size_t>(kind));
    }
    result.most_bytes = std::max(result.most_bytes, sum_bytes);
    byte_ps += static_cast<double>(sum_bytes) * static_cast<double>(span.end_ps - last_ps);
    last_ps = span.end_ps;
  }
  if (last_ps > 0) {
    result.average_bytes = static_cast<int64_t>(byte_ps / static_cast<double>(last_ps));
  }
  return result;
}

}  // namespace fitstep

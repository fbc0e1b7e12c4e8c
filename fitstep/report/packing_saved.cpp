#include "fitstep/report/packing_saved.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/plan/plan.h"
#include "fitstep/program/program.h"
#include "fitstep/report/lane_spans.h"
#include "fitstep/simulate/simulator.h"

namespace fitstep {
namespace {

const Form& form_of(const Program& program, const Run& run) {
  return program.ops[run.op.index()].forms[static_cast<size_t>(run.form)];
}

PackedValue packed_by(const Program& program, const Run& run) {
  const auto size_of = [&](StorageId id) { return program.storages[id.index()].size_bytes; };
  const Form& form = form_of(program, run);
  PackedValue packed{.packer = run.op};
  for (const Read& read : form.reads) {
    if (read.kind == ReadKind::ShapeOnly) continue;
    if (packed.value.is_none() || size_of(read.storage) > packed.value_bytes) {
      packed.value = read.storage;
      packed.value_bytes = size_of(read.storage);
    }
  }
  for (const Write& write : form.writes) {
    packed.code = write.storage;
    packed.code_bytes += size_of(write.storage);
  }
  return packed;
}

}  // namespace

std::vector<PackedValue> packed_values(const Program& program, const Plan& plan,
                                       const Timeline& timeline) {
  const LaneSpans spans(timeline);
  const std::vector<Action>& lane = plan.lane(Lane::Compute);
  std::vector<std::optional<PackedValue>> by_op(program.ops.size());
  std::vector<int64_t> begin_ps(program.ops.size(), 0);
  std::vector<OpId> packer_of(program.storages.size());  // By code.
  for (size_t i = 0; i < lane.size(); ++i) {
    if (lane[i].kind != Action::Kind::Run) continue;
    const Run& run = lane[i].run;
    const Span& span = spans.of({Lane::Compute, static_cast<int32_t>(i)});
    if (program.ops[run.op.index()].is_optional) {
      std::optional<PackedValue>& packed = by_op[run.op.index()];
      if (!packed) {
        packed = packed_by(program, run);
        begin_ps[run.op.index()] = span.end_ps;
        packer_of[packed->code.index()] = run.op;
      }
      packed->pack_ps += span.end_ps - span.begin_ps;
      continue;
    }
    for (const Read& read : form_of(program, run).reads) {
      const OpId packer = packer_of[read.storage.index()];
      if (packer.is_none()) continue;
      std::optional<PackedValue>& packed = by_op[packer.index()];
      if (packed) packed->gap_ps = span.end_ps - begin_ps[packer.index()];
    }
  }
  std::vector<PackedValue> found;
  for (const std::optional<PackedValue>& packed : by_op) {
    if (packed) found.push_back(*packed);
  }
  return found;
}

}  // namespace fitstep

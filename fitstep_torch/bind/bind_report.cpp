// What pictures of a plan show: every op, copy, storage and block of a simulated step, as rows.
//
//   picture()   program, plan, machine --> rows, which python/fitstep/pictures/ names and draws
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/id.h"
#include "fitstep/machine/machine.h"
#include "fitstep/plan/plan.h"
#include "fitstep/planner/planner.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/program.h"
#include "fitstep/report/choices.h"
#include "fitstep/report/held_blocks.h"
#include "fitstep/report/kind_bytes.h"
#include "fitstep/report/time_use.h"
#include "fitstep/report/trace.h"
#include "fitstep/simulate/simulator.h"
#include "fitstep_torch/bind/bindings.h"
#include "fitstep_torch/lower.h"

namespace fitstep::torch_side {
namespace {

// (name, kind, module, file, line, picoseconds of plain PyTorch's form, whether it is optional).
py::list op_rows(const Program& program) {
  py::list rows;
  for (const Op& op : program.ops) {
    rows.append(py::make_tuple(op.name, to_string(op.kind), op.source.module, op.source.file,
                               op.source.line, op.forms.front().time_ps, op.is_optional));
  }
  return rows;
}

// (name, bytes, kind, kind of bytes).
py::list storage_rows(const Program& program) {
  const std::vector<ByteKind> kinds = byte_kinds(program);
  py::list rows;
  for (size_t i = 0; i < program.storages.size(); ++i) {
    const Storage& storage = program.storages[i];
    rows.append(py::make_tuple(storage.name, storage.size_bytes, to_string(storage.kind),
                               to_string(kinds[i])));
  }
  return rows;
}

// (lane, position, begin, end, stall, op or -1, form, copied storage or -1, whether it ran before).
py::list span_rows(const Program& program, const Plan& plan, const Timeline& timeline) {
  std::vector<bool> has_run(program.ops.size(), false);
  py::list rows;
  for (const Span& span : timeline.spans) {
    const Action& action = plan.lane(span.lane)[static_cast<size_t>(span.position)];
    OpId op;
    StorageId storage;
    std::string form;
    bool is_again = false;
    if (action.kind == Action::Kind::Run) {
      op = action.run.op;
      is_again = has_run[op.index()];
      has_run[op.index()] = true;
      form = program.ops[op.index()].forms[static_cast<size_t>(action.run.form)].name;
    } else {
      storage = plan.residencies[action.copy.source.index()].storage;
    }
    rows.append(py::make_tuple(to_string(span.lane), span.position, span.begin_ps, span.end_ps,
                               span.stall_ps, op.value(), form, storage.value(), is_again));
  }
  return rows;
}

// (storage or -1, lane and position of what begins it, the same of what ends it, offset, bytes,
// begin, end, places among all openings and closings). Position -1: there before or after the step.
py::list block_rows(const std::vector<HeldBlock>& blocks) {
  py::list rows;
  for (const HeldBlock& block : blocks) {
    rows.append(py::make_tuple(block.storage.value(), to_string(block.begun_by.lane),
                               block.begun_by.position, to_string(block.ended_by.lane),
                               block.ended_by.position, block.offset_bytes, block.size_bytes,
                               block.begin_ps, block.end_ps, block.opened, block.closed));
  }
  return rows;
}

// (storage, choice, op that makes it or -1, gap, op before and after the gap or -1, time to
// recompute it or None, recomputes, their time, copies, their bytes, whether it is on disk).
py::list choice_rows(const std::vector<StorageChoice>& choices) {
  py::list rows;
  for (const StorageChoice& one : choices) {
    const py::object again = one.again_ps ? py::cast(*one.again_ps) : py::none();
    rows.append(py::make_tuple(one.storage.value(), to_string(one.choice), one.maker.value(),
                               one.gap_ps, one.before.value(), one.after.value(), again,
                               one.recomputes, one.recompute_ps, one.copies, one.copied_bytes,
                               one.is_on_disk));
  }
  return rows;
}

py::dict compute_use(const ComputeUse& use) {
  py::dict made;
  made["first_ps"] = use.first_ps;
  made["recompute_ps"] = use.recompute_ps;
  made["launch_ps"] = use.launch_ps;
  made["slowed_ps"] = use.slowed_ps;
  made["stall_ps"] = use.stall_ps;
  made["tail_ps"] = use.tail_ps;
  return made;
}

py::dict picture(const Plan& plan, const StepProgram& step, const Machine& machine) {
  const Program& program = step.program;
  const Timeline timeline = simulate(program, plan, machine);
  py::dict made;
  made["total_ps"] = timeline.total_ps;
  made["peak_bytes"] = timeline.peak_bytes;
  made["ops"] = op_rows(program);
  made["storages"] = storage_rows(program);
  made["spans"] = span_rows(program, plan, timeline);
  made["blocks"] = block_rows(held_blocks(program, plan, timeline));
  made["choices"] = choice_rows(storage_choices(program, plan, timeline));
  made["compute_use"] = compute_use(time_use(program, plan, machine, timeline).compute);
  made["plain_bytes"] = plain_bytes(program);
  return made;
}

// The lowest plan of a policy on a machine without lower tiers, with no limit of bytes.
std::shared_ptr<Plan> plan_by(const StepProgram& step, const std::string& policy, uint64_t seed) {
  const py::gil_scoped_release release;
  const Machine machine = {
      .name = "local", .threads = 1, .tiers = {{.name = "device"}}, .links = {}, .codecs = {}};
  Frontier frontier = make_frontier(step.program, machine, {.seed = seed, .policy = policy});
  if (frontier.points.empty()) return nullptr;
  return std::make_shared<Plan>(std::move(frontier.points.back().plan));
}

}  // namespace

void bind_report(py::module_& module) {
  module.def("picture", &picture);
  module.def("trace", [](const Plan& plan, const StepProgram& step, const Machine& machine) {
    return print_trace(step.program, plan, simulate(step.program, plan, machine));
  });
  module.def("plan_by", &plan_by);
}

}  // namespace fitstep::torch_side

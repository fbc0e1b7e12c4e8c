#include <algorithm>
#include <span>
#include <utility>

#include "fitstep/plan/budget.h"
#include "fitstep/program/liveness.h"
#include "fitstep/program/resized.h"
#include "fitstep/program/text.h"
#include "fitstep_torch/bind/bindings.h"
#include "fitstep_torch/device.h"
#include "fitstep_torch/lower.h"
#include "fitstep_torch/operators.h"
#include "fitstep_torch/profile.h"
#include "fitstep_torch/record.h"

namespace fitstep::torch_side {
namespace {

py::list storages(const StepProgram& step) {
  py::list found;
  for (const Storage& storage : step.program.storages) {
    py::dict one;
    one["name"] = storage.name;
    one["size_bytes"] = storage.size_bytes;
    one["kind"] = to_string(storage.kind);
    one["is_persistent"] = storage.is_persistent;
    one["has_content_at_start"] = storage.has_content_at_start;
    found.append(one);
  }
  return found;
}

// Facts of a program file's text; raises if the text is not valid.
py::dict facts_of_program(const std::string& text) {
  const Program program = unwrap(parse_program(text));
  int64_t parameter_bytes = 0;
  int64_t flops = 0;
  for (const Storage& storage : program.storages) {
    if (storage.kind == StorageKind::Parameter) parameter_bytes += storage.size_bytes;
  }
  for (const Op& op : program.ops) flops += op.flops;
  py::dict facts;
  facts["hash"] = hash_program(program);
  facts["ops"] = program.ops.size();
  facts["storages"] = program.storages.size();
  facts["plain_peak_bytes"] = plain_peak_bytes(program);
  facts["parameter_bytes"] = parameter_bytes;
  facts["flops"] = flops;
  return facts;
}

// Bytes that a budget leaves besides the tensors that exist already; 0 without a budget, or if
// nothing is left.
int64_t bytes_left(const Tape& tape, const WrittenBudget& budget, const TorchDevice& device) {
  int64_t left_bytes = budget.bytes - (budget.bytes > 0 ? device.outside_bytes() : 0);
  if (budget.percent > 0) {
    const StepProgram step = unwrap(lower(tape, Claims()));
    left_bytes = budget.of(plain_peak_bytes(step.program));
  }
  for (const TapeStorage& storage : tape.storages) {
    const bool is_there = storage.kind == StorageKind::Input ||
                          storage.kind == StorageKind::Parameter ||
                          storage.kind == StorageKind::Buffer;
    if (storage.has_content_at_start && is_there) left_bytes -= storage.size_bytes;
  }
  return std::max<int64_t>(left_bytes, 0);
}

// Three times the operands of the largest call, and some workspace.
int64_t usable_bytes(const Tape& tape) {
  constexpr int64_t kWorkspaceBytes = int64_t{512} << 20;
  const StepProgram step = unwrap(lower(tape, Claims()));
  std::vector<int64_t> sizes;
  for (const Storage& storage : step.program.storages) sizes.push_back(storage.size_bytes);
  int64_t most_bytes = 0;
  for (const TorchCall& call : step.calls)
    most_bytes = std::max(most_bytes, operand_bytes(call, sizes));
  return 3 * most_bytes + kWorkspaceBytes;
}

// Memory in which calls are measured before there is an arena: address space as large as the budget
// allows; every call reuses the same few pages. Null if the system refuses.
std::shared_ptr<Homes> open_scratch(const std::shared_ptr<TorchDevice>& device, const Tape& tape,
                                    int64_t left_bytes) {
  int64_t most_bytes = device->memory_bytes();
  // On a GPU, addresses take memory at once: no more than calls can use.
  if (!device->is_cpu()) most_bytes = std::min(most_bytes, usable_bytes(tape));
  auto scratch = Homes::open(
      device, {.size_bytes = left_bytes > 0 ? std::min(left_bytes, most_bytes) : most_bytes});
  if (!scratch) return nullptr;
  return std::move(scratch).value();
}

// For planning only: it has no calls of the other batch size, so it cannot run.
std::shared_ptr<StepProgram> with_program(const StepProgram& of, Program program) {
  auto made = std::make_shared<StepProgram>(of);
  made->program = std::move(program);
  return made;
}

void bind_resizing(py::module_& module) {
  module.def("resized", [](const StepProgram& a, int64_t batch_a, const StepProgram& b,
                           int64_t batch_b, int64_t batch) {
    return with_program(a, unwrap(resized({a.program, batch_a}, {b.program, batch_b}, batch)));
  });
  module.def("guessed", [](const StepProgram& a, int64_t batch_a, int64_t batch) {
    return with_program(a, guessed({a.program, batch_a}, batch));
  });
}

StepProgram lower_without_gil(const Tape& tape, Profile& profile, TorchDevice& device,
                              std::span<char> room, const py::object& progress) {
  const auto call_progress = [&](size_t done, size_t all) {
    if (progress.is_none()) return;
    const py::gil_scoped_acquire acquire;
    progress(done, all);
  };
  const py::gil_scoped_release release;
  auto made = lower_and_measure(tape, profile, device, room, call_progress);
  const py::gil_scoped_acquire acquire;
  return unwrap(std::move(made));
}

void bind_step_program(py::module_& module) {
  py::class_<StepProgram, std::shared_ptr<StepProgram>>(module, "StepProgram")
      .def("storages", &storages)
      .def("text", [](const StepProgram& step) { return print_program(step.program); })
      .def("hash", [](const StepProgram& step) { return hash_program(step.program); })
      .def("plain_peak_bytes",
           [](const StepProgram& step) { return plain_peak_bytes(step.program); })
      .def("op_count", [](const StepProgram& step) { return step.program.ops.size(); })
      .def("optional_op_count",
           [](const StepProgram& step) {
             return std::ranges::count_if(step.program.ops, &Op::is_optional);
           })
      .def("set_name", [](StepProgram& step, const std::string& name) { step.program.name = name; })
      .def("literal",
           [](const StepProgram& step, size_t storage) {
             for (const auto& [made, source] : step.literal_clones) {
               if (made == static_cast<int32_t>(storage)) storage = static_cast<size_t>(source);
             }
             return step.literals.at(storage);
           })
      .def(
          "external_bytes",
          [](const StepProgram& step) { return step.at_once_bytes + external_bytes(step.program); })
      .def("storage_of_tape",
           [](const StepProgram& step, int32_t number) {
             return step.storage_of_tape.at(static_cast<size_t>(number));
           })
      .def("unrepeatable",
           [](const StepProgram& step) {
             std::vector<size_t> ops;
             for (const OpId op : step.unrepeatable) ops.push_back(op.index());
             return ops;
           })
      .def("left_out", [](const StepProgram& step) { return step.left_out; })
      .def("largest_access",
           [](const StepProgram& step) {
             OpId op(0);
             const int64_t bytes = largest_access_bytes(step.program, &op);
             return py::make_tuple(op.index(), bytes);
           })
      .def("op", [](const StepProgram& step, size_t op) {
        const Op& of = step.program.ops.at(op);
        return py::make_tuple(of.name, of.source.module, of.source.file, of.source.line);
      });
}

}  // namespace

void bind_profile(py::module_& module) {
  py::class_<Profile>(module, "Profile")
      .def(py::init<>())
      .def("save", &Profile::save)
      .def("load", &Profile::load)
      .def("corrected", &Profile::corrected)
      .def("begin_preview", &Profile::begin_preview);
  bind_step_program(module);
  bind_resizing(module);
  module.def("facts_of_program", &facts_of_program);
  module.def("note_pytorchs_folder", &note_pytorchs_folder);
  module.def("declare_pure", &declare_pure);
  module.def("has_own_name", &has_own_name);
  module.def("look_at_operators_again", &look_at_operators_again);
  module.def("lower", [](const Segment& segment) {
    auto step = std::make_shared<StepProgram>(unwrap(lower(segment.tape, Claims())));
    step->at_once_bytes = segment.at_once_bytes;
    return step;
  });
  module.def("lower_and_measure", [](const Segment& segment, Profile& profile,
                                     const std::shared_ptr<TorchDevice>& device,
                                     const std::shared_ptr<Homes>& homes, int64_t bottom_bytes,
                                     const WrittenBudget& budget, const py::object& progress) {
    const std::shared_ptr<Homes> in =
        homes ? homes
              : open_scratch(device, segment.tape, bytes_left(segment.tape, budget, *device));
    const auto room = in ? in->free_above(homes ? bottom_bytes : 0) : std::span<char>();
    auto step = std::make_shared<StepProgram>(
        lower_without_gil(segment.tape, profile, *device, room, progress));
    step->at_once_bytes = segment.at_once_bytes;
    return step;
  });
}

}  // namespace fitstep::torch_side

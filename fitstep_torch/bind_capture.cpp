#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <span>
#include <utility>

#include "fitstep/program/liveness.h"
#include "fitstep/program/text.h"
#include "fitstep_torch/bindings.h"
#include "fitstep_torch/code_trace.h"
#include "fitstep_torch/homes.h"
#include "fitstep_torch/in_place.h"
#include "fitstep_torch/profile.h"
#include "fitstep_torch/python_values.h"

namespace fitstep::torch_side {
namespace {

struct Operator {
  c10::OperatorHandle handle;
};

Operator find_operator(const std::string& name, const std::string& overload) {
  const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!found.has_value())
    raise({ErrorCode::Unsupported, name + " is not registered with the dispatcher"});
  return {*found};
}

StorageKind kind_from(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(StorageKind::Generator); ++i) {
    if (name == to_string(static_cast<StorageKind>(i))) return static_cast<StorageKind>(i);
  }
  throw py::value_error("no storage kind is called " + name);
}

int32_t bind(Recorder& recorder, const at::Tensor& fake, const std::string& name,
             const std::string& kind, bool is_persistent, bool has_content) {
  TapeStorage as{.name = name,
                 .kind = kind_from(kind),
                 .is_persistent = is_persistent,
                 .is_visible = is_persistent,
                 .has_content_at_start = has_content,
                 .literal = {}};
  return recorder.bind(fake, as);
}

void record(Recorder& recorder, const Operator& op, const py::tuple& args, const py::dict& kwargs,
            const py::object& results, const py::tuple& source, int32_t region, bool grad_mode) {
  TorchCall call = call_from_python(recorder, op.handle, args, kwargs, results);
  call.grad_mode = grad_mode;
  recorder.record(std::move(call),
                  {.module = source[0].cast<std::string>(),
                   .file = source[1].cast<std::string>(),
                   .line = source[2].cast<int32_t>()},
                  region);
}

// The content that is in `fake` at the end belongs to a persistent storage that had none before.
void adopt(Recorder& recorder, const at::Tensor& fake, const std::string& name,
           const std::string& kind) {
  TapeStorage& storage =
      recorder.tape().storages[static_cast<size_t>(recorder.reference(fake).storage)];
  if (storage.is_persistent) return;
  storage.name = name;
  storage.kind = kind_from(kind);
  storage.is_persistent = storage.is_visible = true;
}

// What a correction says of the results of this call: None, or per result None or
// (sizes, strides, offset, dtype number).
py::object corrected(Recorder& recorder, const Operator& op, const py::tuple& args,
                     const py::dict& kwargs, bool grad_mode, const Profile& profile) {
  if (profile.corrections().empty()) return py::none();
  const size_t returns = op.handle.schema().returns().size();
  const py::object none = returns == 1 ? py::object(py::none()) : py::object(py::tuple(returns));
  py::object results = none;
  if (returns > 1) {
    py::list empty;
    for (size_t i = 0; i < returns; ++i) empty.append(py::none());
    results = py::tuple(empty);
  }
  TorchCall call = call_from_python(recorder, op.handle, args, kwargs, results);
  call.grad_mode = grad_mode;
  std::vector<int64_t> sizes;
  for (const TapeStorage& storage : recorder.tape().storages) sizes.push_back(storage.size_bytes);
  const auto found = profile.corrections().find(signature_of(call, sizes));
  if (found == profile.corrections().end()) return py::none();
  py::list list;
  for (const TensorRef& real : found->second.results)
    list.append(
        py::make_tuple(real.sizes, real.strides, real.offset, static_cast<int>(real.dtype)));
  return list;
}

// (op, name, numbers, storages of arguments, storages of results) of the ops of one optimizer call.
py::list update_ops(const StepProgram& step, int32_t region) {
  py::list found;
  for (size_t i = 0; i < step.program.ops.size(); ++i) {
    if (step.region_of_op[i] != region) continue;
    const Form& form = step.program.ops[i].forms[0];
    const TorchCall& call = step.calls[form.call.index()];
    py::list numbers;
    py::list reads;
    py::list writes;
    for (const NumberPlace& place : number_places(call))
      numbers.append(number_to_python(number_at(call, place)));
    for (const TensorRef& tensor : tensors_of(call.arguments)) reads.append(tensor.storage);
    for (const TensorRef& tensor : tensors_of(call.results)) writes.append(tensor.storage);
    found.append(py::make_tuple(i, full_name(call.handle), py::tuple(numbers), py::tuple(reads),
                                py::tuple(writes)));
  }
  return found;
}

// Every number of every op, flat: for comparing two recordings.
py::list all_numbers(const StepProgram& step) {
  py::list found;
  for (const Op& op : step.program.ops) {
    const TorchCall& call = step.calls[op.forms[0].call.index()];
    py::list numbers;
    for (const NumberPlace& place : number_places(call))
      numbers.append(number_to_python(number_at(call, place)));
    found.append(py::tuple(numbers));
  }
  return found;
}

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

// What the text of a program file says; raises for one that is not valid.
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

// What a budget of that many bytes, or that share of the plain peak, leaves beside the tensors that
// are there already; 0 for no budget, or one in which no plan has room.
int64_t bytes_left(const Tape& tape, const std::pair<int64_t, double>& budget,
                   const TorchDevice& device) {
  int64_t left_bytes = budget.first - (budget.first > 0 ? device.outside_bytes() : 0);
  if (budget.second > 0) {
    const StepProgram step = unwrap(lower(tape, Claims()));
    left_bytes =
        static_cast<int64_t>(budget.second * static_cast<double>(plain_peak_bytes(step.program)));
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

// What calls are measured in before there is an arena: addresses of our own, as many as the budget
// leaves, of which every call touches the same few again. None where the system refuses them.
std::shared_ptr<Homes> open_scratch(const std::shared_ptr<TorchDevice>& device, const Tape& tape,
                                    int64_t left_bytes) {
  int64_t most_bytes = device->memory_bytes();
  // A GPU's addresses are memory at once: no more than calls can use.
  if (!device->is_cpu()) most_bytes = std::min(most_bytes, usable_bytes(tape));
  auto scratch = Homes::open(
      device, {.size_bytes = left_bytes > 0 ? std::min(left_bytes, most_bytes) : most_bytes});
  if (!scratch) return nullptr;
  return std::move(scratch).value();
}

StepProgram lower_without_gil(Recorder& recorder, Profile& profile, TorchDevice& device,
                              std::span<char> room, const py::object& progress) {
  const auto call_progress = [&](size_t done, size_t all) {
    if (progress.is_none()) return;
    const py::gil_scoped_acquire acquire;
    progress(done, all);
  };
  const py::gil_scoped_release release;
  auto made = lower_and_measure(recorder.tape(), profile, device, room, call_progress);
  const py::gil_scoped_acquire acquire;
  return unwrap(std::move(made));
}

}  // namespace

void bind_capture(py::module_& module) {
  module.def("code_trace_begin", &begin_code_trace);
  module.def("code_trace_end", &end_code_trace);
  module.def("dtype_number", [](const py::object& dtype) {
    return static_cast<int>(dtype.cast<at::ScalarType>());
  });
  py::class_<Operator>(module, "Operator");
  module.def("find_operator", &find_operator);
  py::class_<Recorder>(module, "Recorder")
      .def(py::init<>())
      .def("bind", &bind)
      .def("record", &record)
      .def("adopt", &adopt)
      .def("corrected", &corrected)
      .def("storage_of", &Recorder::storage_of)
      .def("literal",
           [](Recorder& recorder, const at::Tensor& fake, const at::Tensor& real) {
             TapeStorage as{.name = "literal",
                            .kind = StorageKind::Constant,
                            .born = static_cast<int64_t>(recorder.tape().ops.size()),
                            .literal = real};
             return recorder.bind(fake, as);
           })
      .def("set_kind",
           [](Recorder& recorder, int32_t storage, const std::string& kind) {
             recorder.tape().storages.at(static_cast<size_t>(storage)).kind = kind_from(kind);
           })
      .def("rebind",
           [](Recorder& recorder, const at::Tensor& fresh, const at::Tensor& home) {
             recorder.tape().rebindings.emplace_back(recorder.reference(fresh),
                                                     recorder.reference(home));
           })
      .def("output",
           [](Recorder& recorder, const at::Tensor& fake) {
             recorder.tape().outputs.push_back(recorder.reference(fake));
           })
      .def("written_storages", [](Recorder& recorder) { return written_storages(recorder.tape()); })
      .def("read_storages", [](Recorder& recorder) { return read_storages(recorder.tape()); })
      .def("make_persistent",
           [](Recorder& recorder, int32_t number, const std::string& kind) {
             TapeStorage& storage = recorder.tape().storages.at(static_cast<size_t>(number));
             storage.kind = kind_from(kind);
             storage.is_persistent = storage.is_visible = true;
           })
      .def("forget",
           [](Recorder& recorder, int32_t number) {
             TapeStorage& storage = recorder.tape().storages.at(static_cast<size_t>(number));
             storage.kind = StorageKind::Temporary;
             storage.is_persistent = storage.is_visible = storage.has_content_at_start = false;
           })
      .def("drop_last", [](Recorder& recorder) { recorder.tape().ops.pop_back(); })
      .def("op_count", [](Recorder& recorder) { return recorder.tape().ops.size(); });
  py::class_<Profile>(module, "Profile")
      .def(py::init<>())
      .def("save", &Profile::save)
      .def("load", &Profile::load)
      .def("correction_count", [](const Profile& profile) { return profile.corrections().size(); })
      .def("begin_capture", &Profile::begin_capture);
  py::class_<StepProgram, std::shared_ptr<StepProgram>>(module, "StepProgram")
      .def("update_ops", &update_ops)
      .def("all_numbers", &all_numbers)
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
      .def("external_bytes",
           [](const StepProgram& step) {
             int64_t bytes = 0;
             for (const Storage& storage : step.program.storages) {
               if (is_external(storage.kind) && storage.kind != StorageKind::Generator)
                 bytes += storage.size_bytes;
             }
             return bytes;
           })
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
      .def("op", [](const StepProgram& step, size_t op) {
        const Op& of = step.program.ops.at(op);
        return py::make_tuple(of.name, of.source.module, of.source.file, of.source.line);
      });
  module.def("facts_of_program", &facts_of_program);
  module.def("lower", [](Recorder& recorder) {
    return std::make_shared<StepProgram>(unwrap(lower(recorder.tape(), Claims())));
  });
  module.def("lower_and_measure",
             [](Recorder& recorder, Profile& profile, const std::shared_ptr<TorchDevice>& device,
                const std::shared_ptr<Homes>& homes, int64_t bottom_bytes,
                const std::pair<int64_t, double>& budget, const py::object& progress) {
               const std::shared_ptr<Homes> in =
                   homes ? homes
                         : open_scratch(device, recorder.tape(),
                                        bytes_left(recorder.tape(), budget, *device));
               const auto room = in ? in->free_above(homes ? bottom_bytes : 0) : std::span<char>();
               return std::make_shared<StepProgram>(
                   lower_without_gil(recorder, profile, *device, room, progress));
             });
}

}  // namespace fitstep::torch_side

#include "fitstep_torch/run/step_graph.h"

#include <ATen/core/Scalar.h>
#include <c10/core/StorageImpl.h>
#include <fmt/format.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <exception>

#include "fitstep_torch/device.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

bool is_same(const c10::IValue& a, const c10::IValue& b) {
  if (a.isDouble() && b.isDouble()) {
    return std::bit_cast<uint64_t>(a.toDouble()) == std::bit_cast<uint64_t>(b.toDouble());
  }
  if (a.isInt() && b.isInt()) return a.toInt() == b.toInt();
  return a.isBool() && b.isBool() && a.toBool() == b.toBool();
}

std::string refusal_of_op(const StepProgram& step, const Run& run) {
  const Op& op = step.program.ops[run.op.index()];
  const Form& form = op.forms[static_cast<size_t>(run.form)];
  const auto is_of_host = [&](StorageId id) { return step.devices[id.index()].is_cpu(); };
  const auto named = [&](const char* what) {
    return fmt::format("{} ({}:{}) {}", op.name, op.source.file, op.source.line, what);
  };
  if (op.is_random) return named("draws random numbers");
  for (const Write& write : form.writes) {
    const StorageKind kind = step.program.storages[write.storage.index()].kind;
    if (is_of_host(write.storage)) return named("writes a CPU tensor");
    // A graph would write its copy of the input.
    if (kind == StorageKind::Input || kind == StorageKind::Constant) {
      return named("writes an input");
    }
  }
  for (const Read& read : form.reads) {
    const bool is_literal = step.literals[read.storage.index()].has_value();
    if (is_of_host(read.storage) && !is_literal) return named("reads a CPU tensor");
  }
  return {};
}

// Why a graph cannot run the step; empty if it can. A graph could run random ops, but not save and
// restore generator states between them.
std::string refusal_of(const StepProgram& step, const Plan& plan) {
  for (const Lane lane : {Lane::DiskWrite, Lane::DiskRead}) {
    if (!plan.lane(lane).empty()) return "the plan copies to or from a disk";
  }
  for (const Action& action : plan.lane(Lane::Compute)) {
    if (action.kind != Action::Kind::Run) continue;  // Saves a generator's state.
    if (std::string refusal = refusal_of_op(step, action.run); !refusal.empty()) return refusal;
  }
  return {};
}

at::Tensor bytes_of(const c10::Storage& storage, int64_t first, int64_t count) {
  return tensor_over(
      storage,
      {.storage = -1, .sizes = {count}, .strides = {1}, .offset = first, .dtype = at::kByte});
}

at::Tensor bytes_of(const c10::Storage& storage) {
  return bytes_of(storage, 0, static_cast<int64_t>(storage.nbytes()));
}

}  // namespace

StepGraph::StepGraph(const StepProgram& step, const Plan& plan, Homes& homes,
                     PlannedKernels& kernels)
    : step_(step),
      plan_(plan),
      homes_(homes),
      kernels_(kernels),
      refusal_(refusal_of(step, plan)) {}

std::span<char> External::bytes_in(const at::Tensor& tensor, const Program& program) const {
  const c10::Storage& of = tensor.storage();  // An empty view has no address.
  auto* const data = static_cast<char*>(const_cast<void*>(of.data()));
  if (!offset_bytes.has_value()) return {data, of.nbytes()};
  return {data + first_byte(tensor) - *offset_bytes,
          static_cast<size_t>(program.storages[storage.index()].size_bytes)};
}

void StepGraph::note_number(OpId op, size_t number, const c10::IValue& value) {
  const auto [place, is_new] = numbers_.try_emplace({op.index(), number}, value);
  if (!is_new && is_same(place->second, value)) return;
  place->second = value;
  const Op& of = step_.program.ops[op.index()];
  changed_ = fmt::format("{} ({}:{}) got another number in the last step", of.name, of.source.file,
                         of.source.line);
  forget();
}

void StepGraph::forget() {
  has_run_ = false;
  recorded_.reset();
  outputs_.clear();
}

bool StepGraph::prepare(const std::vector<External>& externals,
                        const std::vector<at::Tensor>& tensors, CopyLanes* lanes) {
  if (!refusal_.empty()) return false;
  for (size_t i = 0; i < inputs_.size(); ++i) {  // A data set may have another size now.
    const size_t size_bytes = externals[i].bytes_in(tensors[i], step_.program).size();
    if (size_bytes == static_cast<size_t>(inputs_[i].bytes.numel())) continue;
    forget();
    inputs_.clear();
  }
  note_literals();
  if (!std::exchange(has_run_, true)) return false;
  if (recorded_ != nullptr) return true;
  const Status recorded = record(externals, tensors, lanes);
  if (recorded) {
    changed_.clear();
    return true;
  }
  forget();
  inputs_.clear();
  if (!is_interrupted()) refusal_ = recorded.error().message;
  return false;
}

// Compares literals on the host: kernels get them as numbers, which a graph keeps.
void StepGraph::note_literals() {
  std::vector<std::string> present;
  for (const std::optional<at::Tensor>& literal : step_.literals) {
    if (!literal.has_value() || !literal->is_cpu()) continue;
    const c10::Storage& storage = literal->storage();
    present.emplace_back(static_cast<const char*>(storage.data()), storage.nbytes());
  }
  if (present == literals_) return;
  literals_ = std::move(present);
  forget();
}

void StepGraph::make_inputs(const std::vector<External>& externals,
                            const std::vector<at::Tensor>& tensors) {
  TorchDevice& device = homes_.torch_device();
  for (size_t i = 0; i < externals.size(); ++i) {
    const size_t size_bytes = externals[i].bytes_in(tensors[i], step_.program).size();
    const c10::Storage storage = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), size_bytes, device.allocator()->allocate(size_bytes),
        device.allocator(), /*resizable=*/false);
    inputs_.push_back({bytes_of(storage), externals[i]});
  }
}

// Copies all that the program may read of each input, not only the first view.
void StepGraph::fill_inputs(const std::vector<at::Tensor>& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& bytes = inputs_[i].bytes;
    const char* const begin = inputs_[i].of.bytes_in(tensors[i], step_.program).data();
    const int64_t first = begin - static_cast<const char*>(tensors[i].storage().data());
    bytes.copy_(bytes_of(tensors[i].storage(), first, bytes.numel()));
  }
}

Status StepGraph::record(const std::vector<External>& externals,
                         const std::vector<at::Tensor>& tensors, CopyLanes* lanes) try {
  if (inputs_.empty()) make_inputs(externals, tensors);
  fill_inputs(tensors);
  for (size_t i = 0; i < externals.size(); ++i) {
    const c10::Storage& storage = inputs_[i].bytes.storage();
    auto* const begin = static_cast<char*>(storage.mutable_data());
    kernels_.point(externals[i].storage, {begin, storage.nbytes()}, nullptr);
  }
  const AllocatorCounters& counters = homes_.torch_device().answers().counters();
  const auto elsewhere = [&] {
    return counters.unforeseen + counters.violations + kernels_.misplaced();
  };
  const int64_t before = elsewhere();
  FITSTEP_TRY_STATUS(homes_.device()->begin_recording());
  const std::optional<Stopped> stopped = execute(plan_, kernels_, lanes);
  Result<std::unique_ptr<Recorded>> made = homes_.device()->end_recording();
  if (!stopped.has_value()) {
    for (const TensorRef& output : step_.outputs) outputs_.push_back(kernels_.take_output(output));
  }
  kernels_.drop_outputs();
  if (stopped.has_value()) return stopped->error;
  if (!made) return made.error();
  if (elsewhere() != before) {
    return Error{ErrorCode::Device, "a kernel requests memory that was not measured"};
  }
  recorded_ = std::move(*made);
  return Done{};
} catch (const std::exception& error) {  // No memory for the inputs.
  return Error{ErrorCode::Device, first_line(error)};
}

std::optional<Stopped> StepGraph::replay(const std::vector<at::Tensor>& tensors) {
  Status status = Done{};
  try {
    fill_inputs(tensors);
    status = recorded_->replay();
  } catch (const std::exception& error) {
    status = Error{ErrorCode::Device, first_line(error)};
  }
  if (!status) return Stopped{.error = status.error()};
  ++replays_;
  return std::nullopt;
}

std::vector<at::Tensor> StepGraph::take_outputs() const {
  std::map<const c10::StorageImpl*, c10::Storage> copies;
  std::vector<at::Tensor> taken;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const c10::Storage& storage = outputs_[i].storage();
    auto [copy, is_new] = copies.try_emplace(storage.unsafeGetStorageImpl());
    if (is_new) copy->second = bytes_of(storage).clone().storage();
    taken.push_back(tensor_over(copy->second, step_.outputs[i]));
  }
  return taken;
}

}  // namespace fitstep::torch_side

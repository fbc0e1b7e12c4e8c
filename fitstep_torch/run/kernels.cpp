#include "fitstep_torch/run/kernels.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "fitstep/base/check.h"
#include "fitstep_torch/device.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

// Live requests must not share bytes: a request gets its planned address only after the release of
// earlier requests at the same bytes.
void add_reuse(const Form& form, std::vector<Expected>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (expected[i].address == nullptr || expected[k].address == nullptr) continue;
      const bool shares = expected[i].address < expected[k].address + expected[k].size_bytes &&
                          expected[k].address < expected[i].address + expected[i].size_bytes;
      if (shares && form.requests[k].live.end <= form.requests[i].live.begin)
        expected[i].after_release_of.push_back(static_cast<int32_t>(k));
    }
  }
}

ResidencyId operand(const Run& run, const Form& form, StorageId storage) {
  for (size_t i = 0; i < form.writes.size(); ++i) {
    if (form.writes[i].storage == storage) return run.writes[i];
  }
  for (size_t i = 0; i < form.reads.size(); ++i) {
    if (form.reads[i].storage == storage) return run.reads[i];
  }
  return {};
}

bool is_made_by(const Form& form, StorageId storage) {
  const bool is_read = std::any_of(form.reads.begin(), form.reads.end(),
                                   [&](const Read& read) { return read.storage == storage; });
  return !is_read && std::any_of(form.writes.begin(), form.writes.end(),
                                 [&](const Write& write) { return write.storage == storage; });
}

// Custom operators may return another shape from step to step.
void check_as_planned(const at::Tensor& planned, const at::Tensor& result) {
  TORCH_CHECK(result.sizes() == planned.sizes() && result.scalar_type() == planned.scalar_type(),
              "it made a ", result.scalar_type(), " of shape ", result.sizes(), ", but a ",
              planned.scalar_type(), " of shape ", planned.sizes(), " was recorded");
}

// Whether Python can see the storage between steps.
bool is_visible(const Storage& storage) {
  const bool is_given = storage.kind == StorageKind::Input || storage.kind == StorageKind::Constant;
  return is_given || (storage.is_persistent && storage.kind != StorageKind::Generator);
}

}  // namespace

Result<std::unique_ptr<PlannedKernels>> PlannedKernels::make(const StepProgram& step,
                                                             const Plan& plan, Homes& homes) {
  std::unique_ptr<PlannedKernels> made(new PlannedKernels(step, plan, homes));
  FITSTEP_TRY_STATUS(made->check_copies());
  FITSTEP_TRY_STATUS(made->prepare_storages());
  const std::vector<Action>& lane = plan.lane(Lane::Compute);
  made->prepared_.resize(lane.size());
  made->runs_of_op_.resize(step.program.ops.size());
  for (size_t i = 0; i < lane.size(); ++i) {
    if (lane[i].kind != Action::Kind::Run) continue;
    const Run& run = lane[i].run;
    FITSTEP_TRY_STATUS(made->prepare_run(run, made->prepared_[i]));
    made->runs_of_op_[run.op.index()].push_back(static_cast<int32_t>(i));
    const Form& form = step.program.ops[run.op.index()].forms[static_cast<size_t>(run.form)];
    for (const Write& write : form.writes) {
      if (!is_visible(step.program.storages[write.storage.index()])) continue;
      made->visible_writes_.emplace_back(static_cast<int32_t>(i), write.storage);
    }
  }
  return made;
}

std::vector<StorageId> PlannedKernels::visible_writes(int32_t position) const {
  std::vector<StorageId> found;
  for (const auto& [at, storage] : visible_writes_) {
    if (at > position) break;
    if (std::find(found.begin(), found.end(), storage) == found.end()) found.push_back(storage);
  }
  return found;
}

// With a GPU, CPU tensors have no bytes in the arena, so a lane would copy wrong bytes.
Status PlannedKernels::check_copies() const {
  if (device_.is_cpu()) return Done{};
  for (const Lane lane : kCopyLanes) {
    for (const Action& action : plan_.lane(lane)) {
      const StorageId storage = plan_.residencies[action.copy.source.index()].storage;
      if (!step_.devices[storage.index()].is_cpu()) continue;
      return Error{
          ErrorCode::Unsupported,
          fmt::format("the plan copies '{}', which is not on the GPU, between tiers; plan it again",
                      step_.program.storages[storage.index()].name)};
    }
  }
  return Done{};
}

Status PlannedKernels::prepare_storages() {
  external_.resize(step_.program.storages.size());
  outputs_.resize(step_.program.storages.size());
  for (size_t i = 0; i < plan_.residencies.size(); ++i) {
    const Residency& residency = plan_.residencies[i];
    const size_t storage = residency.storage.index();
    if (residency.tier == kExternalTier) external_[storage] = ResidencyId(i);
    FITSTEP_TRY(char* address, address_of(residency));
    residencies_.push_back(borrowed_storage(address, step_.program.storages[storage].size_bytes,
                                            step_.devices[storage]));
  }
  return Done{};
}

// On a lower tier any address will do: no kernel reads or writes there.
Result<char*> PlannedKernels::address_of(const Residency& residency) {
  if (residency.tier == kDeviceTier) {
    FITSTEP_TRY(char* address, arena_.address(residency.offset_bytes, residency.size_bytes));
    if (device_.is_cpu() || !step_.devices[residency.storage.index()].is_cpu()) return address;
    if (residency.is_home) return homes_.beside(residency.offset_bytes, residency.size_bytes);
    on_host_.emplace_back(static_cast<size_t>(residency.size_bytes));
    return on_host_.back().data();
  }
  if (residency.tier == kExternalTier) {
    const auto& literal = step_.literals[residency.storage.index()];
    if (literal.has_value()) return static_cast<char*>(literal->storage().mutable_data());
  }
  return arena_.base();
}

// A shape-only read may have no residency; any address will do, because no byte is read.
c10::Storage PlannedKernels::storage_for(const Run& run, const Form& form, int32_t storage) const {
  const StorageId id(storage);
  const ResidencyId at = operand(run, form, id);
  if (!at.is_none()) return residencies_[at.index()];
  return borrowed_storage(arena_.base(), step_.program.storages[id.index()].size_bytes,
                          step_.devices[id.index()]);
}

Status PlannedKernels::prepare_expected(const Run& run, const Form& form, PreparedRun& prepared) {
  const OpKind kind = step_.program.ops[run.op.index()].kind;
  const bool may_find_less = device_.finds_less_scratch() && kind == OpKind::Convolution;
  for (size_t i = 0; i < form.requests.size(); ++i) {
    const Request& request = form.requests[i];
    Expected answer{.size_bytes = request.size_bytes,
                    .address = nullptr,
                    .is_any_thread = request.is_any_thread,
                    .is_reusable = request.is_any_thread && request.output.is_none(),
                    .may_be_less = may_find_less && request.output.is_none() &&
                                   request.size_bytes <= prepared.most_unforeseen_bytes,
                    .after_release_of = {}};
    const bool is_external =
        !request.output.is_none() &&
        plan_.residencies[operand(run, form, request.output).index()].tier != kDeviceTier;
    if (!is_external) {
      FITSTEP_TRY(answer.address, arena_.address(run.request_offset_bytes[i], request.size_bytes));
    }
    prepared.expected.push_back(std::move(answer));
  }
  add_reuse(form, prepared.expected);
  return Done{};
}

Status PlannedKernels::prepare_run(const Run& run, PreparedRun& prepared) {
  const Form& form = step_.program.ops[run.op.index()].forms[static_cast<size_t>(run.form)];
  const TorchCall& call = step_.calls[form.call.index()];
  prepared.handle = call.handle;
  prepared.grad_mode = call.grad_mode;
  prepared.most_unforeseen_bytes = call.most_scratch_bytes.value_or(Answers::kNoMost);
  prepared.op = run.op;
  prepared.arguments = make_stack(call, [&](const TensorRef& ref) {
    return tensor_over(storage_for(run, form, ref.storage), ref);
  });
  FITSTEP_TRY_STATUS(prepare_expected(run, form, prepared));
  for (size_t i = 0; i < call.results.size(); ++i) {
    const Value& value = call.results[i];
    for (size_t k = 0; k < value.tensors.size(); ++k) {
      if (!value.tensors[k].has_value()) continue;
      const TensorRef& ref = *value.tensors[k];
      const StorageId id(ref.storage);
      if (!is_made_by(form, id)) continue;
      const ResidencyId at = operand(run, form, id);
      PreparedRun::Made made{
          .result = i,
          .entry = value.kind == Value::Kind::Tensor ? -1 : static_cast<int32_t>(k),
          .address = nullptr,
          .storage = residencies_[at.index()],
          .planned = tensor_over(residencies_[at.index()], ref)};
      if (plan_.residencies[at.index()].tier == kDeviceTier)
        made.address = static_cast<char*>(made.storage.mutable_data());
      prepared.made.push_back(std::move(made));
    }
  }
  if (form.restores_generator) {
    for (size_t i = 0; i < form.reads.size(); ++i) {
      if (!step_.generators[form.reads[i].storage.index()].has_value()) continue;
      prepared.restores = step_.generators[form.reads[i].storage.index()];
      prepared.state = static_cast<const char*>(residencies_[run.reads[i].index()].data());
    }
  }
  return Done{};
}

void PlannedKernels::point(StorageId storage, std::span<char> bytes, void* context) {
  if (const ResidencyId at = external_[storage.index()]; !at.is_none()) {
    repoint(residencies_[at.index()], bytes.data(), context);
    residencies_[at.index()].set_nbytes(bytes.size());
  }
}

void PlannedKernels::set_number(OpId op, const NumberPlace& place, const c10::IValue& number) {
  const TorchCall& standard = step_.calls[step_.program.ops[op.index()].forms[0].call.index()];
  for (const int32_t position : runs_of_op_[op.index()]) {
    PreparedRun& prepared = prepared_[static_cast<size_t>(position)];
    // Our operators have changing numbers at the same argument positions as PyTorch's.
    const auto& arguments = prepared.arguments;
    const auto argument = static_cast<size_t>(place.argument);
    const bool keeps_places =
        prepared.handle == standard.handle ||
        (argument < arguments.size() && arguments[argument].isDouble() && place.position < 0);
    const bool is_tensor = standard.arguments[argument].kind != Value::Kind::Constant;
    FITSTEP_CHECK(keeps_places,
                  "a form of another operator has no place for the default form's numbers");
    if (is_tensor) {
      move_tensor(prepared.arguments[argument], place.position, number.toInt());
    } else {
      replace_number(prepared.arguments[argument], place.position, number);
    }
  }
}

void PlannedKernels::place_result(PreparedRun::Made& made, const at::Tensor& result) {
  c10::StorageImpl* landed = result.storage().unsafeGetStorageImpl();
  if (made.address == nullptr) {
    // An output of the caller's: our storage takes over the memory that the kernel requested.
    made.storage.unsafeGetStorageImpl()->set_data_ptr_noswap(
        landed->set_data_ptr(c10::DataPtr(nullptr, landed->device())));
    return;
  }
  if (landed->data() == made.address) return;
  ++misplaced_;
  made.planned.copy_(result);
}

void PlannedKernels::place_results(PreparedRun& prepared) {
  for (PreparedRun::Made& made : prepared.made) {
    const c10::IValue& returned = stack_[made.result];
    if (made.entry < 0) {
      const at::Tensor& result = returned.toTensor();
      if (!result.defined()) continue;
      check_as_planned(made.planned, result);
      if (result.storage().nbytes() > 0) place_result(made, result);
    } else {
      const at::Tensor result = returned.toTensorVector()[static_cast<size_t>(made.entry)];
      check_as_planned(made.planned, result);
      place_result(made, result);
    }
  }
}

Status PlannedKernels::run(int32_t position) {
  if (is_interrupted()) {
    return Error{ErrorCode::Device, "a second interrupt (Ctrl-C) stopped the step half-way"};
  }
  PreparedRun& prepared = prepared_[static_cast<size_t>(position)];
  // Kernels pop their arguments off the stack, so each run uses a copy.
  stack_.assign(prepared.arguments.begin(), prepared.arguments.end());
  char kept[kGeneratorStateBytes];
  if (prepared.restores) {
    save_generator(*prepared.restores, kept);
    load_generator(*prepared.restores, prepared.state);
  }
  if (at::GradMode::is_enabled() != prepared.grad_mode)
    at::GradMode::set_enabled(prepared.grad_mode);
  const Status called = call(prepared);
  if (prepared.restores) load_generator(*prepared.restores, kept);
  stack_.clear();
  return called;
}

// Catches everything, because copy lanes are still running.
Status PlannedKernels::call(PreparedRun& prepared) {
  Answers& answers = device_.answers();
  answers.set_most_unforeseen(prepared.most_unforeseen_bytes);
  answers.begin_op(prepared.expected);
  std::string what;
  try {
    prepared.handle->callBoxed(stack_);
    answers.end_op();
    answers.set_most_unforeseen(Answers::kNoMost);
    place_results(prepared);
    return Done{};
  } catch (const std::exception& error) {
    what = first_line(error);
  } catch (...) {
    what = "it threw an object that is no std::exception";
  }
  answers.end_op();
  answers.set_most_unforeseen(Answers::kNoMost);
  const Op& op = step_.program.ops[prepared.op.index()];
  return Error{ErrorCode::Device,
               fmt::format("{} ({}:{}) failed: {}", op.name, op.source.file, op.source.line, what)};
}

// The compute lane's only copies save a generator's state; copy lanes make all others.
Status PlannedKernels::copy(int32_t position) {
  const Copy& copy = plan_.lane(Lane::Compute)[static_cast<size_t>(position)].copy;
  const StorageId storage = plan_.residencies[copy.source.index()].storage;
  const auto& generator = step_.generators[storage.index()];
  if (!generator.has_value()) {
    return Error{ErrorCode::Unsupported,
                 fmt::format("the plan copies '{}', which is no generator, on the compute lane; "
                             "plan it again",
                             step_.program.storages[storage.index()].name)};
  }
  save_generator(*generator, static_cast<char*>(residencies_[copy.target.index()].mutable_data()));
  return Done{};
}

at::Tensor PlannedKernels::take_output(const TensorRef& output) {
  const StorageId id(output.storage);
  auto& whole = outputs_[id.index()];
  if (!whole.has_value()) {
    c10::StorageImpl* ours = residencies_[external_[id.index()].index()].unsafeGetStorageImpl();
    auto storage = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), ours->nbytes(),
        ours->set_data_ptr(c10::DataPtr(nullptr, ours->device())),
        ours->device().is_cpu() ? c10::GetCPUAllocator() : device_.allocator(),
        /*resizable=*/true);
    if (!storage->device().is_cpu()) device_.hand_out(storage->data_ptr());
    whole = tensor_over(c10::Storage(std::move(storage)), output);
  }
  return tensor_over(whole->storage(), output);
}

void PlannedKernels::drop_outputs() {
  for (size_t i = 0; i < step_.program.storages.size(); ++i) {
    outputs_[i].reset();
    if (step_.program.storages[i].kind != StorageKind::Output || external_[i].is_none()) continue;
    repoint(residencies_[external_[i].index()], nullptr);
  }
}

}  // namespace fitstep::torch_side

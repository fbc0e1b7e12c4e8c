#include "fitstep_torch/variant.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "fitstep/plan/verify.h"
#include "fitstep_torch/generators.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

Result<std::unique_ptr<Variant>> Variant::make(std::shared_ptr<StepProgram> step, Plan plan,
                                               std::shared_ptr<Homes> homes, int64_t bottom_bytes) {
  const int64_t capacity = homes->arena().size_bytes() - homes->reserve_bytes();
  const std::vector<Fault> faults =
      verify(step->program, plan, {.capacity_bytes = {capacity}, .bottom_bytes = bottom_bytes});
  if (!faults.empty()) {
    return Error{ErrorCode::Mismatch,
                 fmt::format("the plan is not valid for this program ({}: {}); plan it again",
                             to_string(faults.front().kind), faults.front().message)};
  }
  auto made = std::make_unique<Variant>();
  made->step_ = std::move(step);
  made->plan_ = std::make_unique<Plan>(std::move(plan));
  made->homes_ = std::move(homes);
  FITSTEP_TRY(made->kernels_,
              PlannedKernels::make(*made->step_, *made->plan_, made->homes_->arena()));
  for (const auto& generator : made->step_->generators) {
    if (generator.has_value())
      made->generators_.emplace_back(*generator, std::vector<char>(kGeneratorStateBytes));
  }
  return made;
}

void Variant::set_number(OpId op, size_t number, const c10::IValue& value) {
  FITSTEP_CHECK(op.index() < step_->program.ops.size(), "the program has no such op");
  const Form& form = step_->program.ops[op.index()].forms[0];
  const std::vector<NumberPlace> places = number_places(step_->calls[form.call.index()]);
  FITSTEP_CHECK(number < places.size(), "the call has no such number");
  kernels_->set_number(op, places[number], value);
}

std::optional<Stopped> Variant::run(const std::vector<External>& externals,
                                    const std::vector<at::Tensor>& tensors) {
  FITSTEP_CHECK(externals.size() == tensors.size(), "one tensor per external storage");
  for (size_t i = 0; i < externals.size(); ++i) {
    auto* first = static_cast<char*>(const_cast<void*>(tensors[i].const_data_ptr()));
    kernels_->point(externals[i].storage, first - externals[i].offset_bytes);
  }
  for (auto& [generator, state] : generators_) save_generator(generator, state.data());
  adopt_worker_threads();
  set_reserve(homes_->reserve(), homes_->reserve_bytes());
  std::optional<Stopped> stopped;
  {
    const BelowAutograd below;
    const at::AutoGradMode keep_mode(at::GradMode::is_enabled());
    stopped = execute(*plan_, *kernels_, nullptr);
  }
  for (const at::Tensor& tensor : written_) tensor.unsafeGetTensorImpl()->bump_version();
  if (stopped.has_value()) {
    for (auto& [generator, state] : generators_) load_generator(generator, state.data());
    kernels_->drop_outputs();
  }
  return stopped;
}

std::vector<at::Tensor> Variant::take_outputs() {
  std::vector<at::Tensor> outputs;
  for (const TensorRef& output : step_->outputs) outputs.push_back(kernels_->take_output(output));
  kernels_->drop_outputs();
  return outputs;
}

}  // namespace fitstep::torch_side

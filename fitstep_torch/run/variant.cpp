#include "fitstep_torch/run/variant.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "fitstep/base/check.h"
#include "fitstep/plan/verify.h"
#include "fitstep/run/lane_copies.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

// Copies uncoded bytes instead: there is room for all of them.
void without_host_codes(LaneCopies& copies) {
  for (const Lane lane : {Lane::Evict, Lane::Prefetch}) {
    for (LaneCopy& copy : copies.of(lane)) copy.code = Code::None;
  }
}

}  // namespace

Result<std::unique_ptr<Variant>> Variant::make(std::shared_ptr<StepProgram> step, Plan plan,
                                               std::shared_ptr<Homes> homes, int64_t bottom_bytes,
                                               bool has_graph) {
  const HomesOptions& given = homes->options();
  const int64_t capacity = given.size_bytes - given.reserve_bytes;
  const Limits limits{
      .capacity_bytes = {capacity, given.host_capacity_bytes, given.disk_capacity_bytes},
      .bottom_bytes = bottom_bytes,
      .host_bottom_bytes = given.host_bottom_bytes};
  const std::vector<Fault> faults = verify(step->program, plan, limits);
  if (!faults.empty()) {
    return Error{ErrorCode::Mismatch,
                 fmt::format("the plan is not valid for this program ({}: {}); plan it again",
                             to_string(faults.front().kind), faults.front().message)};
  }
  auto made = std::make_unique<Variant>();
  made->step_ = std::move(step);
  made->plan_ = std::make_unique<const Plan>(std::move(plan));
  made->homes_ = std::move(homes);
  FITSTEP_TRY(made->kernels_, PlannedKernels::make(*made->step_, *made->plan_, *made->homes_));
  for (const auto& [place, number] : made->step_->changed_numbers) {
    made->put_number(place.first, place.second, number);
  }
  FITSTEP_CHECK(made->step_->origin_of_op.size() == made->step_->program.ops.size(),
                "each op knows which recorded call it is a part of");
  for (size_t i = 0; i < made->step_->origin_of_op.size(); ++i) {
    const int32_t origin = made->step_->origin_of_op[i].first;
    if (origin < 0) continue;
    if (made->ops_of_call_.size() <= static_cast<size_t>(origin))
      made->ops_of_call_.resize(static_cast<size_t>(origin) + 1);
    made->ops_of_call_[static_cast<size_t>(origin)].emplace_back(i);
  }
  FITSTEP_TRY_STATUS(made->open_lanes());
  if (has_graph) {
    made->graph_ =
        std::make_unique<StepGraph>(*made->step_, *made->plan_, *made->homes_, *made->kernels_);
  }
  for (const auto& generator : made->step_->generators) {
    if (generator.has_value())
      made->generators_.emplace_back(*generator, std::vector<char>(kGeneratorStateBytes));
  }
  return made;
}

Status Variant::open_lanes() {
  if (graph_ != nullptr) graph_->forget();
  if (!has_copy_lanes(*plan_)) return Done{};
  const int64_t host_bytes = tier_bytes(*plan_, kHostTier);
  uses_host_ = host_bytes > 0;
  FITSTEP_TRY_STATUS(homes_->reserve_host(host_bytes));
  FITSTEP_TRY(LaneCopies copies, lane_copies(*plan_, {&homes_->arena(), homes_->host().get()}));
  if (!has_host_codes_) without_host_codes(copies);
  FITSTEP_TRY(lanes_, homes_->device()->open_lanes(std::move(copies)));
  host_ = homes_->host();
  process_ = getpid();
  return Done{};
}

void Variant::set_number(OpId op, size_t number, const c10::IValue& value) {
  put_number(op, number, value);
  step_->changed_numbers.insert_or_assign({op, number}, value);
  if (graph_ != nullptr) graph_->note_number(op, number, value);
}

void Variant::set_numbers(const std::vector<ChangedNumber>& changed) {
  for (const ChangedNumber& one : changed) {
    for (const OpId op : ops_of_call_[static_cast<size_t>(one.op)]) {
      const int32_t part = step_->origin_of_op[op.index()].second;
      const Form& form = step_->program.ops[op.index()].forms[0];
      const TorchCall& call = step_->calls[form.call.index()];
      const std::vector<NumberPlace> places = number_places(call);
      for (size_t i = 0; i < places.size(); ++i) {
        if (places[i].argument != one.place.argument) continue;
        // A list of numbers, one for each entry, was split with the entries.
        const Value& value = call.arguments[static_cast<size_t>(places[i].argument)];
        const bool has_one = value.constant.isList() ? value.constant.toListRef().size() == 1
                                                     : value.tensors.size() == 1;
        const bool is_cut = part >= 0 && places[i].position == 0 && has_one;
        const int32_t position = is_cut ? part : places[i].position;
        if (position == one.place.position) set_number(op, i, one.value);
      }
    }
  }
}

void Variant::put_number(OpId op, size_t number, const c10::IValue& value) {
  FITSTEP_CHECK(op.index() < step_->program.ops.size(), "the program has no such op");
  const Form& form = step_->program.ops[op.index()].forms[0];
  const std::vector<NumberPlace> places = number_places(step_->calls[form.call.index()]);
  FITSTEP_CHECK(number < places.size(), "the call has no such number");
  kernels_->set_number(op, places[number], value);
}

std::optional<Stopped> Variant::run(const std::vector<External>& externals,
                                    const std::vector<at::Tensor>& tensors) {
  FITSTEP_CHECK(externals.size() == tensors.size(), "one tensor per external storage");
  // First, because a forked process would wait forever for threads that it does not have.
  if (lanes_ != nullptr && getpid() != process_) {
    return Stopped{.error = {ErrorCode::Device,
                             "copies between tiers do not survive a fork; compile the step in the "
                             "process that runs it"}};
  }
  // Another plan may have needed a larger host tier since.
  if (lanes_ != nullptr && uses_host_ && (host_.expired() || host_.lock() != homes_->host())) {
    Status opened = open_lanes();
    if (!opened && std::exchange(has_host_codes_, false)) opened = open_lanes();
    if (!opened) return Stopped{.error = opened.error()};
  }
  for (auto& [generator, state] : generators_) save_generator(generator, state.data());
  TorchDevice& device = homes_->torch_device();
  const std::unique_ptr<Serving> serving = device.serve();
  device.answers().set_reserve(homes_->reserve(), homes_->options().reserve_bytes);
  std::optional<Stopped> stopped;
  {
    const BelowAutograd below;
    const at::AutoGradMode keep_mode(at::GradMode::is_enabled());
    is_replayed_ = graph_ != nullptr && graph_->prepare(externals, tensors, lanes_.get());
    if (is_replayed_) {
      stopped = graph_->replay(tensors);
    } else {
      point(externals, tensors);
      stopped = execute(*plan_, *kernels_, lanes_.get());
    }
  }
  if (stopped.has_value()) {
    for (auto& [generator, state] : generators_) load_generator(generator, state.data());
    kernels_->drop_outputs();
    name_storage(*stopped);
  }
  return stopped;
}

void Variant::point(const std::vector<External>& externals,
                    const std::vector<at::Tensor>& tensors) {
  for (size_t i = 0; i < externals.size(); ++i) {
    kernels_->point(externals[i].storage, externals[i].bytes_in(tensors[i], step_->program),
                    tensors[i].storage().data_ptr().get_context());
  }
}

void Variant::name_storage(Stopped& stopped) const {
  if (stopped.lane == Lane::Compute) return;
  const Action& action = plan_->lane(stopped.lane)[static_cast<size_t>(stopped.position)];
  const StorageId id = plan_->residencies[action.copy.source.index()].storage;
  const bool is_on_disk = is_disk_lane(stopped.lane) || homes_->options().has_homes_on_disk;
  stopped.error.message =
      fmt::format("{} could not be {} {}: {}", step_->program.storages[id.index()].name,
                  goes_down(stopped.lane) ? "evicted to" : "prefetched from",
                  is_on_disk ? "disk" : "the host", stopped.error.message);
}

void Variant::sample_codes() {
  if (lanes_ != nullptr) lanes_->sample_codes();
  if (graph_ != nullptr) graph_->forget();  // A graph takes no samples.
}

std::shared_ptr<StepProgram> Variant::sampled_program() const {
  auto known = std::make_shared<StepProgram>(*step_);
  if (lanes_ == nullptr) return known;
  for (const TierLanes& lanes : kTierLanes) {
    const Lane lane = lanes.down;
    const std::vector<CopySize> sizes = lanes_->copy_sizes(lane);
    for (size_t i = 0; i < sizes.size(); ++i) {
      // The largest of several copies of a storage counts. Homes have no code.
      const Residency& target = plan_->residencies[plan_->lane(lane)[i].copy.target.index()];
      if (target.is_home) continue;
      Storage& storage = known->program.storages[target.storage.index()];
      storage.zero_value_bytes = std::max(storage.zero_value_bytes, sizes[i].zero_value_bytes);
      storage.zstd_bytes = std::max(storage.zstd_bytes, sizes[i].zstd_bytes);
    }
  }
  return known;
}

std::vector<Variant::CodedCopy> Variant::coded_copies() const {
  std::vector<CodedCopy> found;
  if (lanes_ == nullptr) return found;
  for (const TierLanes& lanes : kTierLanes) {
    const Lane lane = lanes.down;
    const std::vector<CopySize> sizes = lanes_->copy_sizes(lane);
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Action& evict = plan_->lane(lane)[i];
      const Residency& target = plan_->residencies[evict.copy.target.index()];
      if (target.code == Code::None || sizes[i].written_bytes == 0) continue;
      if (target.tier == kHostTier && !has_host_codes_) continue;
      found.push_back(
          {.storage = target.storage, .tier = target.tier, .code = target.code, .size = sizes[i]});
    }
  }
  return found;
}

std::vector<at::Tensor> Variant::take_outputs() {
  if (is_replayed_) return graph_->take_outputs();
  std::vector<at::Tensor> outputs;
  for (const TensorRef& output : step_->outputs) outputs.push_back(kernels_->take_output(output));
  kernels_->drop_outputs();
  return outputs;
}

}  // namespace fitstep::torch_side

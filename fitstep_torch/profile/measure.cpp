#include "fitstep_torch/profile/measure.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <iterator>
#include <map>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include "fitstep_torch/device.h"
#include "fitstep_torch/lower.h"
#include "fitstep_torch/operators.h"
#include "fitstep_torch/own_kernels.h"
#include "fitstep_torch/profile/holding.h"
#include "fitstep_torch/profile/limited.h"
#include "fitstep_torch/profile/made_up.h"
#include "fitstep_torch/profile/requests.h"
#include "fitstep_torch/profile/run_times.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

constexpr int kHashedRuns = 3;
constexpr int kQueuedRuns = 16;

// Restores all generators that a call may draw from when it is destroyed.
class KeepGenerators {
 public:
  KeepGenerators(const TorchCall& call, c10::Device device) {
    keep(at::detail::getDefaultCPUGenerator());
    if (!device.is_cpu()) keep(at::globalContext().defaultGenerator(device));
    for (const Value& value : call.arguments) {
      if (value.kind == Value::Kind::Constant && value.constant.isGenerator())
        keep(value.constant.toGenerator());
    }
  }
  ~KeepGenerators() {
    for (auto& [generator, state] : kept_) generator.set_state(state);
  }
  KeepGenerators(const KeepGenerators&) = delete;
  KeepGenerators& operator=(const KeepGenerators&) = delete;

  // Hash of the generators' current states.
  uint64_t hash() const {
    uint64_t all = 0;
    for (const auto& [generator, state] : kept_) {
      const at::Tensor now = generator.get_state();
      all = all * 31 + hash_bytes(static_cast<const char*>(now.const_data_ptr()),
                                  static_cast<int64_t>(now.nbytes()));
    }
    return all;
  }

  bool have_moved() const {
    return std::any_of(kept_.begin(), kept_.end(), [](const auto& one) {
      const at::Tensor now = one.first.get_state();
      return std::memcmp(now.data_ptr(), one.second.data_ptr(), now.nbytes()) != 0;
    });
  }

 private:
  void keep(const at::Generator& generator) {
    kept_.emplace_back(generator, generator.get_state());
  }
  std::vector<std::pair<at::Generator, at::Tensor>> kept_;
};

Error kernel_error(const TorchCall& call, const std::string& why) {
  return {ErrorCode::Unsupported,
          fmt::format("{} failed on made-up data of the recorded shapes: {}",
                      full_name(call.handle), why)};
}

// Says nothing about the call. On a CPU PyTorch has no type for this error, only these words.
bool is_out_of_memory(const std::exception& error) {
  constexpr std::string_view kWords = "DefaultCPUAllocator: can't allocate memory";
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         std::string_view(error.what()).find(kWords) != std::string_view::npos;
}

Status run(const TorchCall& call, const std::vector<int64_t>& size_bytes,
           const OfferedPlace& offered, torch::jit::Stack& stack) {
  const KeepCounters counters(offered.device().answers());
  const Limited limited(offered.device().answers(), call, size_bytes);
  offered.begin();
  try {
    const BelowAutograd below;
    const at::AutoGradMode mode(call.grad_mode);
    call.handle.callBoxed(stack);
  } catch (const std::exception& error) {
    offered.end();
    if (is_out_of_memory(error)) throw;
    return kernel_error(call, first_line(error));
  }
  offered.end();
  return Done{};
}

Status offer(const TorchCall& call, const MadeUpInputs& inputs, std::optional<size_t> overwritten,
             std::span<char> room, OfferedPlace& offered) {
  if (!overwritten.has_value()) return Done{};
  return offered.offer(inputs.bytes_of(*call.arguments[*overwritten].tensors.front()), room);
}

// Hashes of the results, without those whose bytes are undefined.
std::vector<uint64_t> hashes_of_defined(const TorchCall& call, std::vector<at::Tensor> results,
                                        TorchDevice& device) {
  for (const size_t undefined : rule_of(call.handle).undefined_results) {
    if (undefined < results.size()) results[undefined] = at::Tensor();
  }
  return hashes_of(results, device);
}

// Whether all runs get equal inputs, so that all must make equal bits.
bool works_on_the_same(const TorchCall& call) {
  if (draws_random_numbers(call.handle) || rule_of(call.handle).is_undefined) return false;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (is_written(call, i)) return false;
  }
  return call.handle.operator_name().getNamespace() != "fitstep";
}

c10::Device device_of(const TorchCall& call, size_t result, std::span<const c10::Device> devices) {
  return devices[static_cast<size_t>(tensors_of(call.results)[result].storage)];
}

// Adds the findings of one run to `measured`.
Status note_run(const TorchCall& call, const MadeUpInputs& inputs,
                std::span<const c10::Device> devices, const std::vector<MemoryEvent>& events,
                const std::vector<at::Tensor>& results, bool is_in_place, bool is_first,
                Measurement& measured) {
  std::vector<MeasuredRequest> requests = requests_from(events, results);
  const bool had_workers = measured.is_any_thread;
  measured.is_any_thread =
      had_workers || std::any_of(events.begin(), events.end(), [](const MemoryEvent& event) {
        return !event.is_release && event.thread != 0;
      });
  if (measured.is_any_thread) {
    requests = requests_of_all_threads(requests, events);
    if (had_workers && measured.requests.size() > requests.size()) requests = measured.requests;
  } else if (!is_first && !same_sequence(requests, measured.requests)) {
    return kernel_error(call, "its memory requests differ from run to run");
  }
  measured.requests = std::move(requests);
  measured.results.clear();
  measured.result_bytes.clear();
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor& result = results[i];
    TensorRef real;
    int64_t bytes = 0;
    if (result.defined() && result.device() != device_of(call, i, devices)) {
      return kernel_error(call, "a result is on another device than recorded");
    }
    if (result.defined()) {
      real = {.storage = inputs.owns(result.storage().data()) && !is_in_place ? -2 : -1,
              .sizes = result.sizes().vec(),
              .strides = result.strides().vec(),
              .offset = result.storage_offset(),
              .dtype = result.scalar_type()};
      bytes = static_cast<int64_t>(result.storage().nbytes());
    }
    measured.results.push_back(std::move(real));
    measured.result_bytes.push_back(bytes);
  }
  return Done{};
}

// A result of a call in a chain: recorded and real geometry. They differ if fewer rows of the batch
// run, because a code is then smaller.
struct MadeResult {
  TensorRef recorded;
  at::Tensor real;

  at::Tensor as(const TensorRef& ref) const {
    return ref == recorded ? real : tensor_over(real.storage(), ref);
  }
};
using MadeResults = std::map<int32_t, MadeResult>;  // By storage.

// A call with only those arguments that are not in `made`.
TorchCall others_of(const TorchCall& call, const MadeResults& made) {
  TorchCall others = call;
  others.arguments.clear();
  for (const TensorRef& ref : tensors_of(call.arguments)) {
    if (made.contains(ref.storage)) continue;
    others.arguments.push_back(tensor_value(ref));
  }
  return others;
}

bool is_argument_of(std::span<const TorchCall> calls, int32_t storage) {
  return std::any_of(calls.begin(), calls.end(), [&](const TorchCall& call) {
    const std::vector<TensorRef> refs = tensors_of(call.arguments);
    return std::any_of(refs.begin(), refs.end(),
                       [&](const TensorRef& ref) { return ref.storage == storage; });
  });
}

Fill first_fill(const TorchCall& call) {
  return rule_of(call.handle).takes_probabilities ? Fill::Probabilities : Fill::Signed;
}

}  // namespace

Status Bench::in_room(const TorchCall& call, const std::function<Status(Fill)>& todo) const {
  Status first = in_room(call, todo, first_fill(call));
  // A GPU kernel refuses data by an assertion. Then the process cannot use the GPU any more.
  if (!place_.device.is_cpu()) return first;
  for (size_t i = 0; i < std::size(kFills) && !first; ++i) {
    if (kFills[i] != first_fill(call) && in_room(call, todo, kFills[i])) return Done{};
  }
  return first;
}

Status Bench::in_room(const TorchCall& call, const std::function<Status(Fill)>& todo,
                      Fill fill) const {
  // Before the room is lent, because serve() keeps the memory that it takes.
  const std::unique_ptr<Serving> serving = place_.device.serve();
  if (place_.room.empty()) return todo(fill);
  LentRoom lent(place_.device, place_.room);
  const Status status = todo(fill);
  if (lent.take_back() != 0 && status) {
    return Error{ErrorCode::Unsupported,
                 fmt::format("{} has returned, but still holds memory that it requested",
                             full_name(call.handle))};
  }
  return status;
}

Status Bench::run_timed(const TorchCall& call, Fill fill, Overwritten overwritten,
                        const std::vector<size_t>& unread, Measurement& measured) const {
  const KeepGenerators generators(call, place_.device.device());
  const MadeUpInputs inputs(call, size_bytes_, {.fill = fill, .unread = unread}, place_);
  OfferedPlace offered(place_.device);
  FITSTEP_TRY_STATUS(offer(call, inputs, overwritten, place_.room, offered));
  RunTimes times;
  std::vector<uint64_t> first_bits;
  for (int i = 0; !times.are_enough(); ++i) {
    torch::jit::Stack stack = inputs.stack(call);
    std::optional<Holding> holding;
    if (i == 0) holding.emplace(place_.device.answers(), Holding::kZero);
    if (place_.device.is_cpu()) wake_threads();
    Logging logging(place_.device.answers());
    const auto begin = std::chrono::steady_clock::now();
    const Status status = run(call, size_bytes_, offered, stack);
    if (status) place_.device.synchronize();
    const auto end = std::chrono::steady_clock::now();
    const std::vector<MemoryEvent> events = logging.stop();
    FITSTEP_TRY_STATUS(status);
    const std::vector<at::Tensor> results = result_tensors(call, stack);
    FITSTEP_TRY_STATUS(note_run(call, inputs, place_.devices, events, results, offered.is_offered(),
                                i <= 1, measured));
    if (works_on_the_same(call) && !offered.is_offered()) {
      std::vector<uint64_t> bits = hashes_of_defined(call, results, place_.device);
      if (i == 0)
        first_bits = std::move(bits);
      else
        measured.is_repeatable = measured.is_repeatable && bits == first_bits;
    }
    times.add(std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count() * 1000);
  }
  if (works_on_the_same(call) && !offered.is_offered() && measured.is_repeatable) {
    const Holding holding(place_.device.answers(), Holding::kNotANumber);
    torch::jit::Stack stack = inputs.stack(call);
    FITSTEP_TRY_STATUS(run(call, size_bytes_, offered, stack));
    measured.is_repeatable =
        hashes_of_defined(call, result_tensors(call, stack), place_.device) == first_bits;
  }
  measured.time_ps = times.typical_ps();
  if (!place_.device.is_cpu()) {
    FITSTEP_TRY(const int64_t queued, queued_ps(call, inputs, offered));
    measured.time_ps = std::min(measured.time_ps, queued);
  }
  // Our operators on generator states count as draws: their order among draws matters.
  measured.draws =
      generators.have_moved() || call.handle.operator_name().getNamespace() == "fitstep";
  return Done{};
}

Result<int64_t> Bench::queued_ps(const TorchCall& call, const MadeUpInputs& inputs,
                                 const OfferedPlace& offered) const {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kQueuedRuns; ++i) {
    torch::jit::Stack stack = inputs.stack(call);
    FITSTEP_TRY_STATUS(run(call, size_bytes_, offered, stack));
  }
  place_.device.synchronize();
  const auto end = std::chrono::steady_clock::now();
  const auto all_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
  return all_ns * 1000 / kQueuedRuns;
}

Status Bench::run_hashed(const TorchCall& call, Fill fill, const std::vector<size_t>& poisoned,
                         Overwritten overwritten, const std::vector<size_t>& unread,
                         std::vector<uint64_t>& hashes) const {
  const KeepGenerators generators(call, place_.device.device());
  const MadeUpInputs inputs(call, size_bytes_,
                            {.fill = fill, .poisoned = poisoned, .unread = unread}, place_);
  OfferedPlace offered(place_.device);
  FITSTEP_TRY_STATUS(offer(call, inputs, overwritten, place_.room, offered));
  torch::jit::Stack stack = inputs.stack(call);
  FITSTEP_TRY_STATUS(run(call, size_bytes_, offered, stack));
  const std::vector<at::Tensor> results = result_tensors(call, stack);
  hashes = hashes_of_defined(call, results, place_.device);
  if (offered.is_offered()) hashes.push_back(offered.is_taken_by(results[0]) ? 1 : 0);
  if (draws_random_numbers(call.handle)) hashes.push_back(generators.hash());
  return Done{};
}

bool Bench::has_room_for(const TorchCall& call) const {
  return place_.room.empty() ||
         operand_bytes(call, size_bytes_) <= static_cast<int64_t>(place_.room.size());
}

// Other inputs are made for one call at a time, equal every time, so that little memory is held.
Status Bench::run_chain(const std::vector<TorchCall>& calls, Fill fill,
                        std::vector<uint64_t>& hashes) const {
  const KeepGenerators generators(calls.front(), place_.device.device());
  MadeResults made;  // Needed by later calls.
  for (size_t i = 0; i < calls.size(); ++i) {
    const TorchCall& call = calls[i];
    const MadeUpInputs inputs(others_of(call, made), size_bytes_, {.fill = fill}, place_);
    torch::jit::Stack stack = make_stack(call, [&](const TensorRef& ref) {
      const auto found = made.find(ref.storage);
      return found == made.end() ? inputs.tensor(ref) : found->second.as(ref);
    });
    FITSTEP_TRY_STATUS(run(call, size_bytes_, OfferedPlace(place_.device), stack));
    const std::vector<at::Tensor> results = result_tensors(call, stack);
    const std::vector<TensorRef> refs = tensors_of(call.results);
    for (size_t k = 0; k < refs.size(); ++k) {
      if (results[k].defined())
        made.insert_or_assign(refs[k].storage, MadeResult{.recorded = refs[k], .real = results[k]});
    }
    hashes = hashes_of_defined(call, results, place_.device);
    const auto behind = std::span(calls).subspan(i + 1);
    std::erase_if(made, [&](const auto& one) { return !is_argument_of(behind, one.first); });
  }
  return Done{};
}

Result<std::vector<uint64_t>> Bench::hash_last_results(const std::vector<TorchCall>& calls) const {
  std::vector<uint64_t> hashes;
  FITSTEP_TRY_STATUS(
      in_room(calls.back(), [&](Fill fill) { return run_chain(calls, fill, hashes); }));
  return hashes;
}

Result<Measurement> Bench::measure(const TorchCall& call, Overwritten overwritten,
                                   const std::vector<size_t>& unread) const {
  Measurement measured;
  FITSTEP_TRY_STATUS(in_room(call, [&](Fill fill) {
    measured = {};
    return run_timed(call, fill, overwritten, unread, measured);
  }));
  const bool was_compared = works_on_the_same(call) && !overwritten.has_value();
  if (rule_of(call.handle).is_undefined || was_compared) return measured;
  std::vector<uint64_t> first;
  for (int i = 0; i < kHashedRuns && measured.is_repeatable; ++i) {
    std::optional<Holding> holding;
    if (i == 0) holding.emplace(place_.device.answers(), Holding::kZero);
    if (i + 1 == kHashedRuns) holding.emplace(place_.device.answers(), Holding::kNotANumber);
    FITSTEP_TRY(std::vector<uint64_t> hashes, hash_results(call, {}, overwritten, unread));
    if (i == 0)
      first = std::move(hashes);
    else
      measured.is_repeatable = hashes == first;
  }
  return measured;
}

Result<std::vector<uint64_t>> Bench::hash_results(const TorchCall& call,
                                                  const std::vector<size_t>& poisoned,
                                                  Overwritten overwritten,
                                                  const std::vector<size_t>& unread) const {
  std::vector<uint64_t> hashes;
  FITSTEP_TRY_STATUS(in_room(call, [&](Fill fill) {
    return run_hashed(call, fill, poisoned, overwritten, unread, hashes);
  }));
  return hashes;
}

}  // namespace fitstep::torch_side

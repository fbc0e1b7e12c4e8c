#include "fitstep_torch/measure.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Half.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <random>

#include "fitstep_torch/allocator.h"
#include "fitstep_torch/op_rules.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

constexpr int kTimedRuns = 3;
constexpr int kHashedRuns = 3;
constexpr int64_t kLongRunPs =
    int64_t{200} * 1000 * 1000 * 1000;  // Above this, one timed run is enough.

constexpr Fill kFills[] = {Fill::Signed, Fill::Probabilities, Fill::Positive};

template <class T>
std::vector<char> random_pattern(Fill fill) {
  constexpr size_t kElements = 16384;
  std::mt19937_64 random(42);  // NOLINT(cert-msc51-cpp): the same data in every run is the point.
  std::vector<char> bytes(kElements * sizeof(T));
  for (size_t i = 0; i < kElements; ++i) {
    const float number = static_cast<float>(random() % 2048) / 1024.0F - 0.984375F;
    const auto value = static_cast<T>(fill == Fill::Signed ? number : std::abs(number) / 2);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

template <class T>
std::vector<char> not_a_number() {
  const auto value = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  std::vector<char> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

template <class T>
std::vector<char> one() {
  const T value = 1;
  std::vector<char> bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::vector<char> integer_pattern(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Int:
      return one<int32_t>();
    case c10::ScalarType::Long:
      return one<int64_t>();
    default:
      return {0};
  }
}

// Valid data of any type: integers are 0, a legal index everywhere, unless they have to be
// positive; booleans alternate.
std::vector<char> pattern_for(c10::ScalarType dtype, Fill fill, bool is_poisoned) {
  switch (dtype) {
    case c10::ScalarType::Float:
    case c10::ScalarType::ComplexFloat:
      return is_poisoned ? not_a_number<float>() : random_pattern<float>(fill);
    case c10::ScalarType::Double:
    case c10::ScalarType::ComplexDouble:
      return is_poisoned ? not_a_number<double>() : random_pattern<double>(fill);
    case c10::ScalarType::BFloat16:
      return is_poisoned ? not_a_number<c10::BFloat16>() : random_pattern<c10::BFloat16>(fill);
    case c10::ScalarType::Half:
      return is_poisoned ? not_a_number<c10::Half>() : random_pattern<c10::Half>(fill);
    case c10::ScalarType::Bool:
      return {0, 1, 1, 0, 1};
    default:
      return fill == Fill::Positive ? integer_pattern(dtype) : std::vector<char>{0};
  }
}

void write_pattern(char* address, int64_t size_bytes, const std::vector<char>& pattern) {
  const auto width = static_cast<int64_t>(pattern.size());
  for (int64_t at = 0; at < size_bytes; at += width) {
    std::memcpy(address + at, pattern.data(),
                static_cast<size_t>(std::min(width, size_bytes - at)));
  }
}

// Puts all generators that a call may draw from back when it goes.
class KeepGenerators {
 public:
  explicit KeepGenerators(const TorchCall& call) {
    keep(at::detail::getDefaultCPUGenerator());
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

// The inputs of a call, made once.
class Inputs {
 public:
  Inputs(const TorchCall& call, const std::vector<int64_t>& size_bytes, Fill fill,
         const std::vector<size_t>& poisoned)
      : fill_(fill) {
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const bool poison = std::find(poisoned.begin(), poisoned.end(), i) != poisoned.end();
      for (const auto& tensor : call.arguments[i].tensors) {
        if (tensor.has_value()) add(*tensor, size_bytes, poison);
      }
    }
    if (full_name(call.handle) == "fitstep::set_generator_state") make_generator_state();
  }

  torch::jit::Stack stack(const TorchCall& call) const {
    return make_stack(
        call, [this](const TensorRef& ref) { return tensor_over(storages_.at(ref.storage), ref); });
  }

  bool owns(const void* address) const {
    return std::any_of(storages_.begin(), storages_.end(), [address](const auto& one) {
      return one.second.data() == address && address != nullptr;
    });
  }

 private:
  void add(const TensorRef& ref, const std::vector<int64_t>& size_bytes, bool poison) {
    if (storages_.contains(ref.storage)) return;
    const int64_t size = std::max(size_bytes[static_cast<size_t>(ref.storage)], reach_bytes(ref));
    auto storage = c10::Storage(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(size), c10::GetCPUAllocator(),
        /*resizable=*/false));
    write_pattern(static_cast<char*>(storage.mutable_data()), size,
                  pattern_for(ref.dtype, fill_, poison));
    storages_.emplace(ref.storage, std::move(storage));
  }

  // A generator refuses zeros as its state.
  void make_generator_state() {
    const at::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
    for (auto& [number, storage] : storages_)
      std::memcpy(storage.mutable_data(), state.data_ptr(),
                  std::min(storage.nbytes(), state.nbytes()));
  }

  Fill fill_;
  std::map<int32_t, c10::Storage> storages_;
};

Error kernel_error(const TorchCall& call, const std::string& what) {
  return {ErrorCode::Unsupported,
          fmt::format("{} failed on made-up data of the recorded shapes: {}",
                      full_name(call.handle), what.substr(0, what.find('\n')))};
}

Status run(const TorchCall& call, torch::jit::Stack& stack) {
  try {
    const BelowAutograd below;
    const at::AutoGradMode mode(call.grad_mode);
    call.handle.callBoxed(stack);
  } catch (const std::exception& error) {
    return kernel_error(call, error.what());
  }
  return Done{};
}

// Pairs every request with its release.
std::vector<MeasuredRequest> requests_from(const std::vector<Event>& events,
                                           const std::vector<at::Tensor>& results) {
  std::vector<MeasuredRequest> requests;
  std::vector<void*> address;
  const auto end = static_cast<Tick>(events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    const auto now = static_cast<Tick>(i);
    if (!events[i].is_release) {
      for (size_t k = 0; k < requests.size(); ++k) {  // Released where nobody saw it.
        if (address[k] == events[i].address && requests[k].live.end == end)
          requests[k].live.end = now;
      }
      requests.push_back({.size_bytes = events[i].size_bytes, .live = {.begin = now, .end = end}});
      address.push_back(events[i].address);
      continue;
    }
    for (size_t k = requests.size(); k-- > 0;) {
      if (address[k] != events[i].address || requests[k].live.end != end) continue;
      requests[k].live.end = now;
      break;
    }
  }
  for (size_t k = 0; k < requests.size(); ++k) {
    if (requests[k].live.end != end || address[k] == nullptr) continue;
    for (size_t r = 0; r < results.size(); ++r) {
      if (results[r].defined() && results[r].storage().data() == address[k])
        requests[k].result = static_cast<int32_t>(r);
    }
  }
  return requests;
}

// Where worker threads ask too, who asks when differs from run to run. So every result has its
// block, and beside them each thread may at any time hold as many blocks of a size as one thread
// was seen to hold at once.
std::vector<MeasuredRequest> requests_of_all_threads(const std::vector<MeasuredRequest>& of_owner,
                                                     const std::vector<Event>& events) {
  struct Use {
    std::map<int32_t, int64_t> live;  // By thread.
    int64_t most = 0;
    bool is_shared = false;
  };
  std::map<int64_t, Use> uses;                           // By size.
  std::map<void*, std::pair<int64_t, int32_t>> holders;  // By address: size and thread.
  for (const Event& event : events) {
    if (!event.is_release) {
      Use& use = uses[event.size_bytes];
      use.most = std::max(use.most, ++use.live[event.thread]);
      use.is_shared = use.is_shared || event.thread != 0;
      holders[event.address] = {event.size_bytes, event.thread};
    } else if (const auto held = holders.find(event.address); held != holders.end()) {
      --uses[held->second.first].live[held->second.second];
      holders.erase(held);
    }
  }
  std::vector<MeasuredRequest> requests;
  for (const MeasuredRequest& request : of_owner) {
    if (request.result < 0) continue;
    requests.push_back(request);
    requests.back().live = {.begin = 0, .end = 1};
  }
  for (const auto& [size_bytes, use] : uses) {
    const int64_t blocks = use.most * (use.is_shared ? at::get_num_threads() : 1);
    requests.insert(requests.end(), static_cast<size_t>(blocks),
                    {.size_bytes = size_bytes, .live = {.begin = 0, .end = 1}});
  }
  return requests;
}

bool same_sequence(const std::vector<MeasuredRequest>& a, const std::vector<MeasuredRequest>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.size_bytes == y.size_bytes && x.live == y.live && x.result == y.result;
  });
}

uint64_t hash_bytes(const char* data, int64_t size) {
  uint64_t hash = 0x9E3779B97F4A7C15ULL ^ static_cast<uint64_t>(size);
  for (int64_t at = 0; at < size; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, data + at, static_cast<size_t>(std::min<int64_t>(8, size - at)));
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDULL;
    hash ^= hash >> 32;
  }
  return hash;
}

uint64_t hash_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0) return 0;
  const at::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  return hash_bytes(
      static_cast<const char*>(dense.const_data_ptr()),
      static_cast<int64_t>(dense.numel() * static_cast<int64_t>(dense.element_size())));
}

std::vector<uint64_t> hashes_of(const std::vector<at::Tensor>& results) {
  std::vector<uint64_t> hashes;
  for (const at::Tensor& result : results) hashes.push_back(hash_of(result));
  return hashes;
}

// Whether run after run finds the same inputs and has to make the same bits.
bool works_on_the_same(const TorchCall& call) {
  if (draws_random_numbers(call.handle) || rule_of(call.handle).is_undefined) return false;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (is_written(call, i)) return false;
  }
  return call.handle.operator_name().getNamespace() != "fitstep";
}

// What one run of the call showed, added to what is known.
Status note_run(const TorchCall& call, const Inputs& inputs, const std::vector<Event>& events,
                const std::vector<at::Tensor>& results, bool is_first, Measurement& measured) {
  std::vector<MeasuredRequest> requests = requests_from(events, results);
  const bool had_workers = measured.is_any_thread;
  measured.is_any_thread =
      had_workers || std::any_of(events.begin(), events.end(), [](const Event& event) {
        return !event.is_release && event.thread != 0;
      });
  if (measured.is_any_thread) {
    requests = requests_of_all_threads(requests, events);
    if (had_workers && measured.requests.size() > requests.size()) requests = measured.requests;
  } else if (!is_first && !same_sequence(requests, measured.requests)) {
    return kernel_error(call, "it requests other memory from run to run");
  }
  measured.requests = std::move(requests);
  measured.results.clear();
  measured.result_bytes.clear();
  for (const at::Tensor& result : results) {
    TensorRef real;
    int64_t bytes = 0;
    if (result.defined()) {
      real = {.storage = inputs.owns(result.storage().data()) ? -2 : -1,
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

}  // namespace

Status Bench::in_room(const TorchCall& call, const std::function<Status(Fill)>& todo) const {
  Status first = in_room(call, todo, kFills[0]);
  for (size_t i = 1; i < std::size(kFills) && !first; ++i) {
    if (in_room(call, todo, kFills[i])) return Done{};
  }
  return first;
}

Status Bench::in_room(const TorchCall& call, const std::function<Status(Fill)>& todo,
                      Fill fill) const {
  if (room_.empty()) return todo(fill);
  lend(room_.data(), static_cast<int64_t>(room_.size()));
  const Status status = todo(fill);
  if (take_back() != 0 && status) {
    return Error{ErrorCode::Unsupported,
                 fmt::format("{} keeps memory that it requested after it has returned",
                             full_name(call.handle))};
  }
  return status;
}

Status Bench::run_timed(const TorchCall& call, Fill fill, Measurement& measured) const {
  const KeepGenerators generators(call);
  const Inputs inputs(call, size_bytes_, fill, {});
  adopt_worker_threads();
  std::vector<int64_t> times_ps;
  std::vector<uint64_t> first_bits;
  for (int i = 0; i <= kTimedRuns; ++i) {
    torch::jit::Stack stack = inputs.stack(call);
    start_log();
    const auto begin = std::chrono::steady_clock::now();
    const Status status = run(call, stack);
    const auto end = std::chrono::steady_clock::now();
    const std::vector<Event> events = stop_log();
    FITSTEP_TRY_STATUS(status);
    const std::vector<at::Tensor> results = result_tensors(call, stack);
    FITSTEP_TRY_STATUS(note_run(call, inputs, events, results, i <= 1, measured));
    if (works_on_the_same(call)) {
      std::vector<uint64_t> bits = hashes_of(results);
      if (i == 0)
        first_bits = std::move(bits);
      else
        measured.is_repeatable = measured.is_repeatable && bits == first_bits;
    }
    if (i == 0) continue;  // The first run warms caches up.
    times_ps.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count() *
                       1000);
    if (times_ps.back() > kLongRunPs) break;
  }
  std::sort(times_ps.begin(), times_ps.end());
  measured.time_ps = times_ps[times_ps.size() / 2];
  // Reading a generator's state, and setting it to what it is, have their place among the draws
  // too.
  measured.draws =
      generators.have_moved() || call.handle.operator_name().getNamespace() == "fitstep";
  return Done{};
}

Status Bench::run_hashed(const TorchCall& call, Fill fill, const std::vector<size_t>& poisoned,
                         std::vector<uint64_t>& hashes) const {
  const KeepGenerators generators(call);
  const Inputs inputs(call, size_bytes_, fill, poisoned);
  torch::jit::Stack stack = inputs.stack(call);
  FITSTEP_TRY_STATUS(run(call, stack));
  hashes = hashes_of(result_tensors(call, stack));
  return Done{};
}

Result<Measurement> Bench::measure(const TorchCall& call) const {
  Measurement measured;
  FITSTEP_TRY_STATUS(in_room(call, [&](Fill fill) {
    measured = {};
    return run_timed(call, fill, measured);
  }));
  if (rule_of(call.handle).is_undefined || works_on_the_same(call)) return measured;
  std::vector<uint64_t> first;
  for (int i = 0; i < kHashedRuns && measured.is_repeatable; ++i) {
    FITSTEP_TRY(std::vector<uint64_t> hashes, hash_results(call, {}));
    if (i == 0)
      first = std::move(hashes);
    else
      measured.is_repeatable = hashes == first;
  }
  return measured;
}

Result<std::vector<uint64_t>> Bench::hash_results(const TorchCall& call,
                                                  const std::vector<size_t>& poisoned) const {
  std::vector<uint64_t> hashes;
  FITSTEP_TRY_STATUS(
      in_room(call, [&](Fill fill) { return run_hashed(call, fill, poisoned, hashes); }));
  return hashes;
}

}  // namespace fitstep::torch_side

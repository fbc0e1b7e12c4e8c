#include "fitstep_torch/profile/made_up.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

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

// Valid data of any type. Integers are 0, which is a legal index, unless they must be positive.
// Booleans mix 0 and 1.
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

}  // namespace

// If a call has windows of a data set, leaves out the data before the first window.
void MadeUpInputs::cut_off(const TorchCall& call) {
  constexpr int64_t kAlignment = 64;
  for (const TensorRef& ref : tensors_of(call.arguments)) {
    const int64_t first = ref.offset * static_cast<int64_t>(c10::elementSize(ref.dtype));
    const int64_t begin = first / kAlignment * kAlignment;
    const auto [known, is_new] = begins_.try_emplace(ref.storage, begin);
    known->second = std::min(known->second, begin);
  }
}

MadeUpInputs::MadeUpInputs(const TorchCall& call, const std::vector<int64_t>& size_bytes,
                           const Contents& contents, const Workplace& place) {
  const auto is_in = [](const std::vector<size_t>& list, size_t argument) {
    return std::find(list.begin(), list.end(), argument) != list.end();
  };
  std::map<int32_t, int64_t> reach;
  if (call.has_moving_tensors) cut_off(call);
  for (const TensorRef& ref : tensors_of(call.arguments))
    reach[ref.storage] = std::max(reach[ref.storage], reach_bytes(ref));
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    for (const auto& tensor : call.arguments[i].tensors) {
      if (!tensor.has_value() || storages_.contains(tensor->storage)) continue;
      const auto number = static_cast<size_t>(tensor->storage);
      const int64_t size = call.has_moving_tensors
                               ? reach[tensor->storage] - begins_[tensor->storage]
                               : std::max(size_bytes[number], reach_bytes(*tensor));
      if (is_in(contents.unread, i)) {
        storages_.emplace(tensor->storage,
                          borrowed_storage(place.room.data(), size, place.devices[number]));
      } else {
        const bool poison = is_in(contents.poisoned, i);
        add(*tensor, size, pattern_for(tensor->dtype, contents.fill, poison), place);
      }
    }
  }
  if (full_name(call.handle) == "fitstep::set_generator_state") make_generator_state();
}

at::Tensor MadeUpInputs::tensor(const TensorRef& ref) const {
  const auto begin = begins_.find(ref.storage);
  if (begin == begins_.end()) return tensor_over(storages_.at(ref.storage), ref);
  TensorRef moved = ref;
  moved.offset -= begin->second / static_cast<int64_t>(c10::elementSize(ref.dtype));
  return tensor_over(storages_.at(ref.storage), moved);
}

torch::jit::Stack MadeUpInputs::stack(const TorchCall& call) const {
  return make_stack(call, [this](const TensorRef& ref) { return tensor(ref); });
}

bool MadeUpInputs::owns(const void* address) const {
  return std::any_of(storages_.begin(), storages_.end(), [address](const auto& one) {
    return one.second.data() == address && address != nullptr;
  });
}

std::span<char> MadeUpInputs::bytes_of(const TensorRef& ref) const {
  const c10::Storage& storage = storages_.at(ref.storage);
  return {static_cast<char*>(storage.mutable_data()), storage.nbytes()};
}

void MadeUpInputs::add(const TensorRef& ref, int64_t size_bytes, const std::vector<char>& pattern,
                       const Workplace& place) {
  const bool is_on_host = place.devices[static_cast<size_t>(ref.storage)].is_cpu();
  auto storage = c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(size_bytes),
      is_on_host ? c10::GetCPUAllocator() : place.device.allocator(), /*resizable=*/false));
  TorchDevice& device = is_on_host ? *cpu_device() : place.device;
  device.fill(static_cast<char*>(storage.mutable_data()), size_bytes, pattern);
  storages_.emplace(ref.storage, std::move(storage));
}

// A generator refuses zeros as its state.
void MadeUpInputs::make_generator_state() {
  const at::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  for (auto& [number, storage] : storages_)
    std::memcpy(storage.mutable_data(), state.data_ptr(),
                std::min(storage.nbytes(), state.nbytes()));
}

}  // namespace fitstep::torch_side

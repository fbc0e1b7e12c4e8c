#include "fitstep_torch/record/geometry.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/MemoryFormat.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fitstep_torch/operators.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

using Convert = std::function<at::Tensor(const at::Tensor&)>;

// The arguments, with each tensor replaced by convert(tensor).
torch::jit::Stack converted(const torch::jit::Stack& from, const Convert& convert,
                            bool is_for_meta) {
  torch::jit::Stack stack;
  stack.reserve(from.size());
  for (const c10::IValue& value : from) {
    if (is_for_meta && value.isDevice()) {
      stack.emplace_back(c10::Device(c10::DeviceType::Meta));
    } else if (is_for_meta && value.isGenerator()) {
      stack.emplace_back();
    } else {
      stack.push_back(with_others(value, convert));
    }
  }
  return stack;
}

void keep_flags(const at::Tensor& from, const at::Tensor& to) {
  if (from.unsafeGetTensorImpl()->is_wrapped_number())
    to.unsafeGetTensorImpl()->set_wrapped_number(true);
  if (from.is_conj()) to._set_conj(true);
  if (from.is_neg()) to._set_neg(true);
}

TensorRef geometry_of(const at::Tensor& tensor, c10::DeviceType device) {
  if (tensor.layout() != at::kStrided || tensor.is_nested() || tensor.is_quantized())
    throw NotForeseen("not dense");
  return {.storage = -1,
          .sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .offset = tensor.storage_offset(),
          .dtype = tensor.scalar_type(),
          .is_conjugate = tensor.is_conj(),
          .is_negative = tensor.is_neg(),
          .device = device};
}

void check_not_resized(const TorchCall& call, const torch::jit::Stack& arguments) {
  for (const size_t i : facts_of(call.handle).written) {
    if (!arguments[i].isTensor() || call.arguments[i].kind != Value::Kind::Tensor) continue;
    const auto& recorded = call.arguments[i].tensors.front();
    const at::Tensor& now = arguments[i].toTensor();
    if (!recorded.has_value() || !now.defined()) continue;
    if (now.sizes() != c10::IntArrayRef(recorded->sizes)) throw Resizes(kResizes);
  }
}

// Restores the generator's state when it is destroyed.
class GeneratorKept {
 public:
  GeneratorKept(const torch::jit::Stack& stack, c10::Device device)
      : generator_(at::globalContext().defaultGenerator(device)) {
    for (const c10::IValue& value : stack)
      if (value.isGenerator()) generator_ = value.toGenerator();
    save_generator(generator_, state_.data());
  }
  GeneratorKept(const GeneratorKept&) = delete;
  GeneratorKept& operator=(const GeneratorKept&) = delete;
  ~GeneratorKept() { load_generator(generator_, state_.data()); }

 private:
  at::Generator generator_;
  std::vector<char> state_ = std::vector<char>(kGeneratorStateBytes);
};

constexpr int64_t kMostMadeUpBytes = int64_t{2} << 30;

// generator_state() and set_generator_state() act on a real generator: no trial runs.
Value generator_state_value() {
  return tensor_value(
      {.storage = -1, .sizes = {kGeneratorStateBytes}, .strides = {1}, .dtype = at::kByte});
}

int64_t operand_bytes(const TorchCall& call) {
  int64_t bytes = 0;
  for (TensorRef tensor : tensors_of(call.arguments)) {
    tensor.offset = 0;  // A made-up copy begins at its storage's begin.
    bytes += reach_bytes(tensor);
  }
  return bytes;
}

std::vector<Value> by_meta_kernel(const TorchCall& call, const torch::jit::Stack& stack,
                                  c10::Device device) {
  const auto convert = [](const at::Tensor& one) {
    at::Tensor meta = at::detail::empty_strided_meta(one.sizes(), one.strides(), one.scalar_type());
    keep_flags(one, meta);
    return meta;
  };
  torch::jit::Stack arguments = converted(stack, convert, /*is_for_meta=*/true);
  // TorchScript may leave out the device; then the CPU's kernel would run, and draw.
  const auto& schema = call.handle.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (schema[i].name() == "device" && arguments[i].isNone())
      arguments[i] = c10::Device(c10::DeviceType::Meta);
  }
  const torch::jit::Stack kept = arguments;
  call.handle.callBoxed(&arguments);
  check_not_resized(call, kept);
  return values_of(arguments, device.type());
}

// Memory format of a convolution's results, which the device's kernels choose by the arguments'
// strides; the meta kernel looks only at sizes.
std::optional<at::MemoryFormat> format_of_convolution(const TorchCall& call,
                                                      const torch::jit::Stack& stack) {
  const std::string& name = call.handle.operator_name().name;
  const bool is_backward = name == "aten::convolution_backward";
  if (!is_backward && name != "aten::convolution") return std::nullopt;
  const size_t first = is_backward ? 1 : 0;  // Argument 0 is the gradient.
  const at::Tensor& input = stack[first].toTensor();
  const at::Tensor& weight = stack[first + 1].toTensor();
  if (weight.dim() < 4) return std::nullopt;
  std::optional<at::Tensor> bias;
  if (!is_backward && stack[2].isTensor()) bias = stack[2].toTensor();
  at::OptionalSymIntArrayRef bias_sizes = std::nullopt;
  const std::vector<int64_t> of_bias =
      is_backward && !stack[3].isNone() ? stack[3].toIntVector() : std::vector<int64_t>();
  const size_t shift = is_backward ? 1 : 0;
  const std::vector<int64_t> strides = stack[3 + shift].toIntVector();
  const std::vector<int64_t> paddings = stack[4 + shift].toIntVector();
  const std::vector<int64_t> dilations = stack[5 + shift].toIntVector();
  const std::vector<int64_t> output_paddings = stack[7 + shift].toIntVector();
  if (!of_bias.empty()) bias_sizes = c10::fromIntArrayRefSlow(of_bias);
  const at::native::ConvBackend backend = at::native::select_conv_backend(
      input, weight, bias, c10::fromIntArrayRefSlow(strides), c10::fromIntArrayRefSlow(paddings),
      c10::fromIntArrayRefSlow(dilations), stack[6 + shift].toBool(),
      c10::fromIntArrayRefSlow(output_paddings), stack[8 + shift].toInt(), bias_sizes);
  return at::native::_determine_backend_memory_format(input, weight, backend);
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  return strides;
}

void use_format(std::vector<Value>& results, at::MemoryFormat format, size_t count) {
  for (size_t i = 0; i < std::min(count, results.size()); ++i) {
    for (auto& tensor : results[i].tensors) {
      if (!tensor.has_value()) continue;
      if (format == at::MemoryFormat::ChannelsLast && tensor->sizes.size() == 4) {
        tensor->strides = c10::get_channels_last_strides_2d(tensor->sizes);
      } else if (format == at::MemoryFormat::ChannelsLast3d && tensor->sizes.size() == 5) {
        tensor->strides = c10::get_channels_last_strides_3d(tensor->sizes);
      } else if (format == at::MemoryFormat::Contiguous) {
        tensor->strides = contiguous_strides(tensor->sizes);
      }
    }
  }
}

// The tensor without repeats by expand(); clone() would change its strides.
at::Tensor once(at::Tensor tensor) {
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.stride(i) == 0 && tensor.size(i) > 1) tensor = tensor.narrow(i, 0, 1);
  }
  return tensor;
}

// Gives results the geometry that the profile has measured.
void correct(std::vector<Value>& results, const Measurement& seen,
             const std::vector<bool>& is_measured) {
  size_t next = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    for (auto& tensor : results[i].tensors) {
      if (!tensor.has_value() || next >= seen.results.size() || !is_measured[i]) continue;
      const TensorRef& real = seen.results[next++];
      tensor->sizes = real.sizes;
      tensor->strides = real.strides;
      tensor->dtype = real.dtype;
    }
  }
}

// Uses measurements of the call, or of the two calls into which a convolution's backward is split.
void correct(std::vector<Value>& results, const TorchCall& call,
             const std::map<std::string, Measurement>& corrections) {
  if (corrections.empty()) return;
  const auto found = corrections.find(geometry_text(call));
  if (found != corrections.end())
    correct(results, found->second, std::vector<bool>(results.size(), true));
  if (full_name(call.handle) != "aten::convolution_backward") return;
  const c10::List<bool> given = call.arguments.back().constant.toBoolList();
  const std::vector<bool> of_weight = {false, given[1], given[2]};
  for (const std::vector<bool>& mask : {std::vector<bool>{true, false, false}, of_weight}) {
    TorchCall part = call;
    part.arguments.back().constant = c10::List<bool>({mask[0], mask[1], mask[2]});
    const auto of_part = corrections.find(geometry_text(part));
    if (of_part != corrections.end()) correct(results, of_part->second, mask);
  }
}

}  // namespace

std::vector<Value> values_of(const torch::jit::Stack& results, c10::DeviceType device) {
  std::vector<Value> values;
  for (const c10::IValue& result : results) {
    Value value;
    if (result.isTensor()) {
      value.kind = Value::Kind::Tensor;
      const at::Tensor& tensor = result.toTensor();
      value.tensors.push_back(tensor.defined() ? std::optional(geometry_of(tensor, device))
                                               : std::nullopt);
    } else if (result.isTensorList()) {
      value.kind = Value::Kind::TensorList;
      for (const at::Tensor& one : result.toTensorVector())
        value.tensors.emplace_back(geometry_of(one, device));
    } else {
      value.constant = result;
    }
    values.push_back(std::move(value));
  }
  return values;
}

std::vector<Value> Geometries::of(const TorchCall& call, const torch::jit::Stack& stack,
                                  const std::vector<int64_t>& size_bytes, c10::Device device) {
  const std::string& name = call.handle.operator_name().name;
  if (name == "fitstep::generator_state") return {generator_state_value()};
  if (name == "fitstep::set_generator_state") return {};
  const std::string signature = signature_of(call, size_bytes);
  const std::string key =
      fmt::format("{} {} {}", signature, c10::toString(at::get_default_dtype_as_scalartype()),
                  at::globalContext().userEnabledMkldnn());  // Both change results.
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const BelowAutograd below;
  std::vector<Value> results;
  const OperatorFacts& facts = facts_of(call.handle);
  const bool is_others = is_of_others(call.handle);
  const int64_t bytes = operand_bytes(call);
  // Without tensor arguments a random operator makes tensors of the given sizes: no trial needed.
  const bool draws_by_sizes = facts.is_random && bytes == 0;
  const bool may_try = !is_others && facts.written.empty() && !draws_by_sizes;
  const bool has_room =
      3 * bytes <= static_cast<int64_t>(room_.bytes.size()) || bytes <= kMostBesideBytes;
  if (may_try && has_room && bytes <= most_tried_bytes_) {
    Trial trial = tried(call, stack, device);
    if (trial.failure == nullptr) {
      correct(trial.results, call, profile_.corrections());
      return known_.emplace(key, std::move(trial.results)).first->second;
    }
    if (trial.is_sure) std::rethrow_exception(trial.failure);  // The user's mistake.
  }
  try {
    results = by_meta_kernel(call, stack, device);
    if (const auto format = format_of_convolution(call, stack); format.has_value())
      use_format(results, *format, 2);  // The bias's gradient has one dimension.
  } catch (const NotForeseen&) {
    throw;
  } catch (const Resizes&) {
    throw;
  } catch (const std::exception& error) {
    if (is_beyond_exceptions(error)) throw;
    if (is_others) throw NotForeseen("has no fake kernel");
    Trial trial = tried(call, stack, device);
    if (trial.failure != nullptr && trial.is_sure) std::rethrow_exception(trial.failure);
    if (trial.failure != nullptr) throw NotForeseen("refuses made-up data");
    results = std::move(trial.results);
  }
  correct(results, call, profile_.corrections());
  return known_.emplace(key, std::move(results)).first->second;
}

at::Tensor Geometries::made_up(const at::Tensor& like, Fill fill) {
  const bool is_number = like.unsafeGetTensorImpl()->is_wrapped_number();
  const bool is_whole = c10::isIntegralType(like.scalar_type(), /*includeBool=*/true);
  const bool is_there = like.is_cpu() && like.has_storage() && !is_hollow(like);
  if (is_number ||
      (is_whole && is_there && fill != Fill::Blank)) {  // Lengths and indices must agree.
    at::Tensor copy = at::empty_strided(like.sizes(), like.strides(), like.options());
    once(copy).copy_(once(like.detach()));
    keep_flags(like, copy);
    return copy;
  }
  at::Tensor made = at::empty_strided(like.sizes(), like.strides(),
                                      at::TensorOptions().dtype(like.dtype()).device(like.device()))
                        .zero_();
  if (fill == Fill::Zeros || fill == Fill::Blank) return made;
  if (is_whole || fill == Fill::Ones) return made.fill_(1);
  const at::Tensor ramp = at::arange(made.numel(), at::TensorOptions().device(like.device()));
  return made.copy_(ramp.remainder(7).add(1).div(8).reshape(made.sizes()));
}

Geometries::Trial Geometries::tried_with(const TorchCall& call, const torch::jit::Stack& stack,
                                         Fill fill) {
  c10::DeviceType device = c10::DeviceType::CPU;
  for (const TensorRef& tensor : tensors_of(call.arguments)) device = tensor.device;
  Trial trial;
  try {
    torch::jit::Stack arguments = converted(
        stack, [&](const at::Tensor& like) { return made_up(like, fill); },
        /*is_for_meta=*/false);
    const torch::jit::Stack kept = arguments;
    call.handle.callBoxed(&arguments);
    check_not_resized(call, kept);
    trial.results = values_of(arguments, device);
  } catch (const c10::Error& error) {
    trial.failure = std::current_exception();
    trial.message = error.what_without_backtrace();
  } catch (const std::exception& error) {
    trial.failure = std::current_exception();
    trial.message = error.what();
  }
  return trial;
}

Geometries::Trial Geometries::tried(const TorchCall& call, const torch::jit::Stack& stack,
                                    c10::Device device) const {
  if (operand_bytes(call) > kMostMadeUpBytes) throw NotForeseen("too large to try");
  std::optional<GeneratorKept> kept;
  if (facts_of(call.handle).is_random) kept.emplace(stack, device);
  std::unique_ptr<Serving> serving;
  std::optional<LentRoom> lent;
  if (room_.device != nullptr && !room_.bytes.empty()) {
    serving = room_.device->serve();
    lent.emplace(*room_.device, room_.bytes);
  }
  Trial first = tried_with(call, stack, Fill::Zeros);
  first.is_sure = true;
  for (const Fill fill : {Fill::Ones, Fill::Ramp, Fill::Blank}) {
    if (first.failure == nullptr) break;
    Trial other = tried_with(call, stack, fill);
    const bool is_sure =
        first.is_sure && other.failure != nullptr && other.message == first.message;
    if (other.failure == nullptr) first = std::move(other);
    first.is_sure = is_sure;
  }
  return first;
}

}  // namespace fitstep::torch_side

#include "fitstep_torch/lower/pack_rules.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fitstep_torch/own_kernels.h"

namespace fitstep::torch_side {
namespace {

using Sizes = std::vector<int64_t>;

const TensorRef* tensor_of(const TorchCall& call, size_t argument) {
  if (argument >= call.arguments.size()) return nullptr;
  const Value& value = call.arguments[argument];
  if (value.kind != Value::Kind::Tensor || !value.tensors.front()) return nullptr;
  return &*value.tensors.front();
}

int64_t elements(const TensorRef& ref) {
  return std::accumulate(ref.sizes.begin(), ref.sizes.end(), int64_t{1}, std::multiplies<>());
}

bool is_plain_float(const TensorRef& ref) {
  const bool is_float = ref.dtype == c10::ScalarType::Float || ref.dtype == c10::ScalarType::Double;
  return is_float && !ref.is_negative && !ref.is_conjugate;
}

// Whether each position in memory holds the same element index in both tensors.
bool has_layout_of(const TensorRef& a, const TensorRef& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.offset == 0 && b.offset == 0;
}

Sizes strides_for(const Sizes& sizes, const std::vector<size_t>& inner_first) {
  Sizes strides(sizes.size(), 1);
  int64_t stride = 1;
  for (const size_t i : inner_first) {
    strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

TorchCall call_of(const char* name, std::vector<Value> arguments, TensorRef result) {
  return {.handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, ""),
          .arguments = std::move(arguments),
          .results = {tensor_value(std::move(result))}};
}

TensorRef bytes_ref(int64_t count) {
  return {.sizes = {count}, .strides = {1}, .dtype = c10::ScalarType::Byte};
}

int64_t bytes_of_bits(const TensorRef& ref) { return (elements(ref) + 7) / 8; }

bool is_floating(const TensorRef& ref) {
  return c10::isFloatingType(ref.dtype) && c10::elementSize(ref.dtype) <= sizeof(double) &&
         !ref.is_negative;
}

// Whether the elements fill memory without a gap from the storage's begin, in any dimension order.
bool is_dense(const TensorRef& ref) {
  const auto element_bytes = static_cast<int64_t>(c10::elementSize(ref.dtype));
  return ref.offset == 0 && covers(ref, elements(ref) * element_bytes);
}

// The call of read_codes.cpp that unpacks the code at `argument` and then does what `call` does.
TorchCall unpacker_of(const TorchCall& call, const char* name, size_t argument,
                      const TensorRef& code, int64_t bound = 0) {
  const TensorRef& whole = *tensor_of(call, argument);
  TorchCall read = call;
  read.handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  read.arguments[argument] = tensor_value(code);
  read.arguments.push_back({.constant = whole.sizes});
  read.arguments.push_back({.constant = whole.strides});
  read.arguments.push_back({.constant = static_cast<int64_t>(whole.dtype)});
  read.arguments.push_back({.constant = bound});
  return read;
}

// Our call that does what `call` does, directly from the code at `argument`.
TorchCall reader_of(const TorchCall& call, const char* name, size_t argument,
                    const TensorRef& code) {
  TorchCall read = call;
  read.handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  read.arguments[argument] = tensor_value(code);
  return read;
}

// Whether the call works element by element on `grad` (argument 0) and the packed argument, all of
// one geometry.
bool is_elementwise(const TorchCall& call, size_t argument) {
  const TensorRef* grad = tensor_of(call, 0);
  const TensorRef* packed = tensor_of(call, argument);
  if (grad == nullptr || packed == nullptr || tensors_of(call.results).size() != 1) return false;
  const TensorRef result = tensors_of(call.results).front();
  return is_plain_float(*grad) && result.dtype == grad->dtype && has_layout_of(*grad, *packed) &&
         has_layout_of(*grad, result);
}

// "<name>_packed" reads the bits directly; "<name>_unpacked" serves all other types and layouts.
std::optional<PackRule> sign_rule(const TorchCall& call, const std::string& name, bool nan_counts) {
  const TensorRef* self = tensor_of(call, 1);
  if (self == nullptr || !is_floating(*self) || !is_dense(*self)) return std::nullopt;
  const TensorRef bits = bytes_ref(bytes_of_bits(*self));
  const bool is_direct = is_elementwise(call, 1) && self->dtype == tensor_of(call, 0)->dtype;
  return PackRule{.argument = 1,
                  .pack = call_of("fitstep::pack_signs",
                                  {tensor_value(*self), Value{.constant = nan_counts}}, bits),
                  .read = is_direct ? reader_of(call, (name + "_packed").c_str(), 1, bits)
                                    : unpacker_of(call, (name + "_unpacked").c_str(), 1, bits),
                  .before = {},
                  .may_take_first = is_direct};
}

// Only for a threshold of integer 0 that cannot change from step to step.
std::optional<PackRule> threshold_rule(const TorchCall& call) {
  const c10::IValue& threshold = call.arguments[2].constant;
  if (call.has_host_numbers || !threshold.isInt() || threshold.toInt() != 0) return std::nullopt;
  return sign_rule(call, "fitstep::threshold_backward", true);
}

std::optional<PackRule> mask_rule(const TorchCall& call, const char* name, size_t argument) {
  const TensorRef* mask = tensor_of(call, argument);
  if (mask == nullptr || mask->dtype != c10::ScalarType::Bool || !is_dense(*mask))
    return std::nullopt;
  const TensorRef bits = bytes_ref(bytes_of_bits(*mask));
  return PackRule{.argument = argument,
                  .pack = call_of("fitstep::pack_bools", {tensor_value(*mask)}, bits),
                  .read = unpacker_of(call, name, argument, bits),
                  .before = {}};
}

std::optional<PackRule> native_dropout_rule(const TorchCall& call) {
  std::optional<PackRule> rule = mask_rule(call, "fitstep::native_dropout_backward_unpacked", 1);
  if (!rule || !is_elementwise(call, 1)) return rule;
  const TensorRef bits = *rule->read.arguments[1].tensors.front();
  rule->read = reader_of(call, "fitstep::native_dropout_backward_packed", 1, bits);
  rule->may_take_first = true;
  return rule;
}

// The last op before `op` that writes this storage; none if there is none.
std::optional<size_t> writer_before(const StepProgram& step, size_t op, int32_t storage) {
  for (size_t i = op; i-- > 0;) {
    const std::vector<Write>& writes = step.program.ops[i].forms[0].writes;
    if (std::ranges::count(writes, StorageId(storage), &Write::storage) > 0) return i;
  }
  return std::nullopt;
}

const TorchCall& call_at(const StepProgram& step, size_t op) {
  return step.calls[step.program.ops[op].forms[0].call.index()];
}

// Whether the call scales by a number that keeps two values distinct, and neither NaN.
bool scales(const TorchCall& call) {
  const std::string name = full_name(call.handle);
  if (name != "aten::div_.Scalar" && name != "aten::mul_.Scalar") return false;
  const c10::IValue& by = call.arguments[1].constant;
  const double factor = by.isDouble() ? by.toDouble() : 0;
  return std::isfinite(factor) && factor != 0;
}

// All calls that made `noise`: bernoulli_ (zeros and ones), then only scaling, so that elements
// have two values. Empty otherwise.
std::vector<TorchCall> makers_of_two(const StepProgram& step, size_t op, const TensorRef& noise) {
  std::vector<TorchCall> makers;
  size_t at = op;
  while (const std::optional<size_t> writer = writer_before(step, at, noise.storage)) {
    const TorchCall& call = call_at(step, *writer);
    if (tensor_of(call, 0) == nullptr || !(*tensor_of(call, 0) == noise)) return {};
    makers.insert(makers.begin(), call);
    const std::string name = full_name(call.handle);
    if (name == "aten::bernoulli_.float" || name == "fitstep::bernoulli_") return makers;
    if (!scales(call)) return {};
    at = *writer;
  }
  return {};
}

std::optional<PackRule> product_rule(const StepProgram& step, size_t op) {
  const TorchCall& call = call_at(step, op);
  if (tensor_of(call, 0) == nullptr || tensor_of(call, 1) == nullptr) return std::nullopt;
  const TensorRef& noise = *tensor_of(call, 1);
  if (!is_floating(noise) || !is_dense(noise)) return std::nullopt;
  const bool is_direct = is_elementwise(call, 1) && noise.dtype == tensor_of(call, 0)->dtype;
  std::vector<TorchCall> makers = makers_of_two(step, op, noise);
  if (makers.empty()) return std::nullopt;
  const TensorRef packed = bytes_ref(kTableBytes + bytes_of_bits(noise));
  return PackRule{.argument = 1,
                  .pack = call_of("fitstep::pack_two", {tensor_value(noise)}, packed),
                  .read = is_direct ? reader_of(call, "fitstep::multiply_packed", 1, packed)
                                    : unpacker_of(call, "fitstep::multiply_unpacked", 1, packed),
                  .before = std::move(makers),
                  .may_take_first = is_direct};
}

int64_t product_of(const c10::IValue& list) {
  const std::vector<int64_t> sizes = list.toIntVector();
  if (sizes.size() == 1) return sizes[0] * sizes[0];
  return sizes.size() == 2 ? sizes[0] * sizes[1] : 0;
}

// max_pool2d_with_indices_backward(grad, self, kernel, stride, padding, dilation, ceil, indices)
std::optional<PackRule> pool_rule(const StepProgram& step, size_t op) {
  constexpr size_t kIndices = 7;
  const TorchCall& call = call_at(step, op);
  const TensorRef* grad = tensor_of(call, 0);
  const TensorRef* self = tensor_of(call, 1);
  const TensorRef* indices = tensor_of(call, kIndices);
  const std::vector<TensorRef> results = tensors_of(call.results);
  if (grad == nullptr || self == nullptr || indices == nullptr || results.size() != 1)
    return std::nullopt;
  const TensorRef& made = results.front();
  const bool is_plain = is_contiguous(*grad) && is_contiguous(*indices) && is_contiguous(made);
  const bool is_last =
      is_channels_last(*grad) && is_channels_last(*indices) && is_channels_last(made);
  const bool is_right = is_plain_float(*grad) && made.dtype == grad->dtype &&
                        made.sizes == self->sizes && indices->sizes == grad->sizes &&
                        made.strides == self->strides && (is_plain || is_last);
  const int64_t window = product_of(call.arguments[2].constant);
  if (!is_right || window < 1 || window > 256) return std::nullopt;
  const std::optional<size_t> maker = writer_before(step, op, indices->storage);
  if (!maker || full_name(call_at(step, *maker).handle) != "aten::max_pool2d_with_indices")
    return std::nullopt;
  TensorRef codes = *indices;
  codes.storage = -1;
  codes.dtype = c10::ScalarType::Byte;
  return PackRule{.argument = kIndices,
                  .pack = call_of("fitstep::pack_pool_indices",
                                  {tensor_value(*indices), Value{.constant = self->sizes[2]},
                                   Value{.constant = self->sizes[3]}, call.arguments[2],
                                   call.arguments[3], call.arguments[4], call.arguments[5]},
                                  codes),
                  .read = reader_of(call, "fitstep::max_pool2d_backward_packed", kIndices, codes),
                  .before = {call_at(step, *maker)}};
}

// Whether the call makes indices, all smaller than the size of the dimension that it reduces.
bool makes_indices(const TorchCall& call) {
  static const auto& names = *new std::set<std::string>{
      "aten::max.dim",
      "aten::min.dim",
      "aten::sort",
      "aten::sort.stable",
      "aten::topk",
      "aten::kthvalue",
      "aten::median.dim",
      "aten::max_pool2d_with_indices",
      "aten::max_pool3d_with_indices",
      "aten::adaptive_max_pool2d",
      "aten::adaptive_max_pool3d",
  };
  return names.contains(full_name(call.handle));
}

// `bound`: the kernel raises an error for indices of `bound` or more.
std::optional<PackRule> index_rule(const StepProgram& step, size_t op, const char* name,
                                   size_t argument, int64_t bound) {
  const TorchCall& call = call_at(step, op);
  const TensorRef* indices = tensor_of(call, argument);
  if (indices == nullptr || indices->dtype != c10::ScalarType::Long || !is_dense(*indices))
    return std::nullopt;
  const std::optional<size_t> maker = writer_before(step, op, indices->storage);
  if (bound <= 0 || bound > int64_t{1} << 32 || !maker || !makes_indices(call_at(step, *maker)))
    return std::nullopt;
  const TensorRef code = bytes_ref(elements(*indices) * index_bytes(bound));
  return PackRule{.argument = argument,
                  .pack = call_of("fitstep::narrow_indices",
                                  {tensor_value(*indices), Value{.constant = bound}}, code),
                  .read = unpacker_of(call, name, argument, code, bound),
                  .before = {call_at(step, *maker)}};
}

// Size of the first argument (a tensor) along the dimension in the second argument.
int64_t size_along(const TorchCall& call) {
  const TensorRef* self = tensor_of(call, 0);
  if (self == nullptr || self->sizes.empty()) return 0;
  const int64_t dim = call.arguments[1].constant.toInt();
  return self->sizes.at(static_cast<size_t>(dim < 0 ? dim + std::ssize(self->sizes) : dim));
}

// Elements of one plane, or volume, of the tensor in the second argument.
int64_t window_size(const TorchCall& call, size_t dimensions) {
  const TensorRef* self = tensor_of(call, 1);
  if (self == nullptr || self->sizes.size() < dimensions) return 0;
  return std::accumulate(self->sizes.end() - static_cast<std::ptrdiff_t>(dimensions),
                         self->sizes.end(), int64_t{1}, std::multiplies<>());
}

std::optional<PackRule> any_pool_rule(const StepProgram& step, size_t op, const std::string& name) {
  const TorchCall& call = call_at(step, op);
  const auto rule = [&](const char* ours, size_t argument, size_t dimensions) {
    return index_rule(step, op, ours, argument, window_size(call, dimensions));
  };
  if (name == "aten::max_pool2d_with_indices_backward") {
    if (std::optional<PackRule> packed = pool_rule(step, op)) return packed;
    return rule("fitstep::max_pool2d_backward_unpacked", 7, 2);
  }
  if (name == "aten::max_pool3d_with_indices_backward")
    return rule("fitstep::max_pool3d_backward_unpacked", 7, 3);
  if (name == "aten::adaptive_max_pool2d_backward")
    return rule("fitstep::adaptive_max_pool2d_backward_unpacked", 2, 2);
  if (name == "aten::adaptive_max_pool3d_backward")
    return rule("fitstep::adaptive_max_pool3d_backward_unpacked", 2, 3);
  return std::nullopt;
}

}  // namespace

bool is_channels_last(const TensorRef& ref) {
  return ref.sizes.size() == 4 && ref.strides == strides_for(ref.sizes, {1, 3, 2, 0}) &&
         ref.offset == 0;
}

bool is_contiguous(const TensorRef& ref) {
  return ref.sizes.size() == 4 && ref.strides == strides_for(ref.sizes, {3, 2, 1, 0}) &&
         ref.offset == 0;
}

std::optional<PackRule> pack_rule(const StepProgram& step, size_t op) {
  const TorchCall& call = call_at(step, op);
  const std::string name = full_name(call.handle);
  if (call.has_moving_tensors) return std::nullopt;
  if (name == "aten::threshold_backward") return threshold_rule(call);
  if (name == "aten::leaky_relu_backward")
    return sign_rule(call, "fitstep::leaky_relu_backward", false);
  if (name == "aten::mul.Tensor") return product_rule(step, op);
  if (name == "aten::native_dropout_backward") return native_dropout_rule(call);
  if (name == "aten::where.self") return mask_rule(call, "fitstep::where_unpacked", 0);
  if (name == "aten::masked_fill.Scalar")
    return mask_rule(call, "fitstep::masked_fill_unpacked", 1);
  if (name == "aten::scatter.src")
    return index_rule(step, op, "fitstep::scatter_unpacked", 2, size_along(call));
  if (name == "aten::scatter_.src")
    return index_rule(step, op, "fitstep::scatter_unpacked_", 2, size_along(call));
  return any_pool_rule(step, op, name);
}

}  // namespace fitstep::torch_side

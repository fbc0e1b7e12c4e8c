// Counts what an operator computes and moves, from the geometry of its tensors.
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "fitstep_torch/operators/op_rules.h"

namespace fitstep::torch_side {
namespace {

int64_t elements(const TensorRef* tensor) {
  if (tensor == nullptr) return 0;
  return std::accumulate(tensor->sizes.begin(), tensor->sizes.end(), int64_t{1},
                         std::multiplies<>());
}

// Size of dimension `index`, from the end if negative; 0 if there is none.
int64_t dimension(const TensorRef* tensor, int64_t index) {
  if (tensor == nullptr) return 0;
  const auto count = static_cast<int64_t>(tensor->sizes.size());
  if (index < 0) index += count;
  return index < 0 || index >= count ? 0 : tensor->sizes[static_cast<size_t>(index)];
}

const TensorRef* argument(const TorchCall& call, const char* name) {
  const int32_t index = argument_index(call.handle, name);
  if (index < 0) return nullptr;
  const Value& value = call.arguments[static_cast<size_t>(index)];
  if (value.kind != Value::Kind::Tensor || !value.tensors.front()) return nullptr;
  return &*value.tensors.front();
}

const c10::IValue& constant(const TorchCall& call, const char* name) {
  return call.arguments[static_cast<size_t>(argument_index(call.handle, name))].constant;
}

// Each entry of the product is a sum over the last dimension of the left factor.
int64_t product(const TorchCall& call, const char* left) {
  const std::vector<TensorRef> results = tensors_of(call.results);
  if (results.empty()) return 0;
  return 2 * elements(results.data()) * dimension(argument(call, left), -1);
}

// A weight has one slice of dimension 0 for each output channel; for each input channel when
// transposed. Each gradient costs as much as the forward pass.
int64_t convolution(const TorchCall& call, bool is_backward) {
  const TensorRef* weight = argument(call, "weight");
  const int64_t per_element = elements(weight) / std::max<int64_t>(dimension(weight, 0), 1);
  const std::vector<TensorRef> results = tensors_of(call.results);
  const bool is_transposed = constant(call, "transposed").toBool();
  const TensorRef* output = is_backward ? argument(call, "grad_output") : results.data();
  const TensorRef* over = is_transposed ? argument(call, "input") : output;
  const int64_t forward = 2 * elements(over) * per_element;
  if (!is_backward) return forward;
  const c10::List<bool> mask = constant(call, "output_mask").toBoolList();
  return forward * (int64_t{mask[0]} + int64_t{mask[1]});
}

// Scores, then the weighted sum of values. A causal mask saves nothing in this count.
int64_t attention(const TorchCall& call) {
  const TensorRef* query = argument(call, "query");
  const TensorRef* value = argument(call, "value");
  const int64_t rows = elements(query) / std::max<int64_t>(dimension(query, -1), 1);
  const int64_t keys = dimension(value, -2);
  return 2 * rows * keys * (dimension(query, -1) + dimension(value, -1));
}

// Products for all gates, at every position.
int64_t recurrent_layer(const TorchCall& call, const char* of_input, const char* of_hidden) {
  const TensorRef* input = argument(call, "input");
  const int64_t positions = elements(input) / std::max<int64_t>(dimension(input, -1), 1);
  return 2 * positions * (elements(argument(call, of_input)) + elements(argument(call, of_hidden)));
}

// Whether the call reads only some rows of the argument, chosen by its other arguments.
bool is_gathered_from(const std::string& name, size_t index) {
  return index == 0 && (name == "aten::embedding" || name == "aten::gather" ||
                        name == "aten::index_select" || name == "aten::index.Tensor");
}

}  // namespace

int64_t flops_of(const TorchCall& call) {
  const std::string name = full_name(call.handle);
  if (name == "aten::mm" || name == "aten::bmm") return product(call, "self");
  if (name == "aten::addmm") return product(call, "mat1");
  if (name == "aten::baddbmm") return product(call, "batch1");
  if (name == "aten::linear") return product(call, "input");
  if (name == "aten::convolution") return convolution(call, /*is_backward=*/false);
  if (name == "aten::convolution_backward") return convolution(call, /*is_backward=*/true);
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu") return attention(call);
  // The backward kernel recomputes the scores, and computes four products of the same size.
  if (name == "aten::_scaled_dot_product_flash_attention_for_cpu_backward")
    return attention(call) / 2 * 5;
  if (name == "aten::mkldnn_rnn_layer") return recurrent_layer(call, "weight0", "weight1");
  if (name == "aten::mkldnn_rnn_layer_backward")
    return 2 * recurrent_layer(call, "weight1", "weight2");
  return 0;
}

int64_t bytes_of(const TorchCall& call) {
  const OpRule& rule = rule_of(call.handle);
  if (rule.is_undefined) return 0;
  const std::string name = full_name(call.handle);
  const std::vector<size_t> shape_only = shape_only_arguments(call);
  std::set<int32_t> results;  // Their storages.
  int64_t made = 0;
  for (const TensorRef& result : tensors_of(call.results)) {
    made += reach_bytes(result);
    results.insert(result.storage);
  }
  int64_t bytes = made;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    if (std::find(shape_only.begin(), shape_only.end(), i) != shape_only.end()) continue;
    const bool is_output = is_written(call, i);
    const bool is_overwritten =
        is_output && (rule.overwrites || call.handle.schema().arguments()[i].is_out());
    for (const auto& tensor : call.arguments[i].tensors) {
      if (!tensor.has_value()) continue;
      const int64_t all = reach_bytes(*tensor);
      if (!is_overwritten) bytes += is_gathered_from(name, i) ? std::min(all, made) : all;
      if (is_output && !results.contains(tensor->storage)) bytes += all;  // Not returned.
    }
  }
  return bytes;
}

}  // namespace fitstep::torch_side

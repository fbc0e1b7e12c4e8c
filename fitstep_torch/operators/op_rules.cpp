#include "fitstep_torch/operators/op_rules.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <unordered_map>

namespace fitstep::torch_side {
namespace {

using Table = std::unordered_map<std::string, OpRule>;

void add_kinds(Table& table) {
  const auto kind = [&](OpKind of, std::initializer_list<const char*> names) {
    for (const char* name : names) table[name].kind = of;
  };
  kind(OpKind::Convolution, {"aten::convolution", "aten::convolution_backward"});
  kind(OpKind::Matmul, {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear",
                        "aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward"});
  kind(OpKind::Normalisation,
       {"aten::native_batch_norm", "aten::native_batch_norm_backward", "aten::native_layer_norm",
        "aten::native_layer_norm_backward", "aten::native_group_norm",
        "aten::native_group_norm_backward", "aten::_native_batch_norm_legit"});
  kind(OpKind::Activation, {"aten::relu",
                            "aten::relu_",
                            "aten::gelu",
                            "aten::gelu_backward",
                            "aten::silu",
                            "aten::silu_backward",
                            "aten::tanh",
                            "aten::tanh_backward",
                            "aten::sigmoid",
                            "aten::sigmoid_backward",
                            "aten::threshold_backward",
                            "aten::leaky_relu",
                            "aten::leaky_relu_",
                            "aten::leaky_relu_backward",
                            "aten::hardtanh",
                            "aten::hardtanh_backward",
                            "fitstep::threshold_backward_packed",
                            "fitstep::leaky_relu_backward_packed",
                            "fitstep::threshold_backward_unpacked",
                            "fitstep::leaky_relu_backward_unpacked",
                            "aten::_softmax",
                            "aten::_softmax_backward_data",
                            "aten::_log_softmax",
                            "aten::_log_softmax_backward_data"});
  kind(OpKind::Pool,
       {"aten::max_pool2d_with_indices", "aten::max_pool2d_with_indices_backward",
        "fitstep::max_pool2d_with_codes", "fitstep::max_pool2d_backward_packed",
        "fitstep::max_pool2d_backward_unpacked", "fitstep::max_pool3d_backward_unpacked",
        "fitstep::adaptive_max_pool2d_backward_unpacked",
        "fitstep::adaptive_max_pool3d_backward_unpacked", "aten::avg_pool2d",
        "aten::avg_pool2d_backward", "aten::_adaptive_avg_pool2d",
        "aten::_adaptive_avg_pool2d_backward"});
  kind(OpKind::Attention, {"aten::_scaled_dot_product_flash_attention_for_cpu",
                           "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
                           "aten::_scaled_dot_product_flash_attention",
                           "aten::_scaled_dot_product_flash_attention_backward",
                           "aten::_scaled_dot_product_efficient_attention",
                           "aten::_scaled_dot_product_efficient_attention_backward"});
  kind(OpKind::Elementwise,
       {"aten::add.Tensor", "aten::mul.Tensor", "aten::sub.Tensor", "aten::div.Tensor",
        "aten::add_.Tensor", "aten::mul_.Tensor", "aten::native_dropout_backward",
        "fitstep::multiply_packed", "fitstep::native_dropout_backward_packed",
        "fitstep::multiply_unpacked", "fitstep::native_dropout_backward_unpacked",
        "fitstep::where_unpacked", "fitstep::masked_fill_unpacked"});
  kind(OpKind::Reduction, {"aten::sum", "aten::sum.dim_IntList", "aten::mean", "aten::mean.dim"});
  kind(OpKind::Random,
       {"aten::native_dropout", "aten::bernoulli_.float", "aten::bernoulli.p", "aten::randn",
        "aten::rand", "aten::normal_", "aten::uniform_", "fitstep::bernoulli_"});
  kind(OpKind::Copy,
       {"aten::copy_", "aten::clone", "aten::_to_copy", "fitstep::pack_signs", "fitstep::pack_two",
        "fitstep::pack_bools", "fitstep::pack_pool_indices", "fitstep::narrow_indices"});
}

void add_reads(Table& table) {
  for (const char* name :
       {"aten::avg_pool2d_backward", "aten::avg_pool3d_backward", "aten::nll_loss_backward",
        "aten::nll_loss2d_backward", "aten::reflection_pad1d_backward",
        "aten::reflection_pad2d_backward", "aten::replication_pad2d_backward"})
    table[name].shape_only = {"self"};
  OpRule& max_pool = table["aten::max_pool2d_with_indices_backward"];
  max_pool.shape_only = {"self"};
  max_pool.bounded = {"indices"};
  table["fitstep::max_pool2d_backward_packed"].shape_only = {"self"};
  table["aten::native_layer_norm_backward"].shape_only = {"bias"};
  for (const char* name :
       {"aten::threshold_backward", "aten::leaky_relu_backward", "aten::hardtanh_backward"})
    table[name].sign_only = {"self"};
}

void add_batch_norm(Table& table) {
  OpRule& forward = table["aten::native_batch_norm"];
  forward.hidden_writes = {"running_mean", "running_var"};
  forward.optional_state = {"running_mean", "running_var"};
  forward.only_if = "training";
  OpRule& backward = table["aten::native_batch_norm_backward"];
  backward.shape_only = {"running_mean", "running_var"};
  backward.only_if = "train";
}

void add_overwrites(Table& table) {
  for (const char* name : {"aten::copy_", "aten::fill_.Scalar", "aten::fill_.Tensor", "aten::zero_",
                           "aten::normal_", "aten::uniform_", "aten::bernoulli_.float",
                           "aten::random_", "aten::exponential_", "fitstep::bernoulli_"})
    table[name].overwrites = true;
}

// Elementwise kernels: they read an input element before they write the result's same element.
void add_in_place(Table& table) {
  const auto may = [&](std::vector<std::string> arguments,
                       std::initializer_list<const char*> names) {
    for (const char* name : names) table[name].may_overwrite = arguments;
  };
  may({"grad_output"},
      {"aten::threshold_backward", "aten::leaky_relu_backward", "aten::hardtanh_backward",
       "aten::gelu_backward", "aten::silu_backward", "aten::tanh_backward",
       "aten::sigmoid_backward", "aten::elu_backward", "aten::hardswish_backward"});
  may({"self"},
      {"aten::relu", "aten::leaky_relu", "aten::hardtanh", "aten::gelu", "aten::silu", "aten::tanh",
       "aten::sigmoid", "aten::elu", "aten::hardswish", "aten::neg", "aten::masked_fill.Scalar"});
  may({"self", "other"},
      {"aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor", "aten::div.Tensor"});
}

void add_undefined(Table& table) {
  for (const char* name : {"aten::empty.memory_format", "aten::empty_like", "aten::empty_strided",
                           "aten::empty_permuted", "aten::new_empty", "aten::new_empty_strided"})
    table[name].is_undefined = true;
  // Seed and offset: uninitialised without dropout.
  table["aten::_scaled_dot_product_efficient_attention"].undefined_results = {2, 3};
  // A workspace with padded rows.
  table["aten::mkldnn_rnn_layer"].undefined_results = {3};
}

void add_probabilities(Table& table) {
  for (const char* name :
       {"aten::binary_cross_entropy", "aten::binary_cross_entropy_backward", "aten::bernoulli",
        "aten::bernoulli_.Tensor", "aten::multinomial", "aten::_assert_async", "aten::sqrt",
        "aten::sqrt_", "aten::rsqrt", "aten::rsqrt_", "aten::log", "aten::log_"})
    table[name].takes_probabilities = true;
}

const Table& table() {
  static const Table rules = [] {
    Table made;
    add_kinds(made);
    add_reads(made);
    add_batch_norm(made);
    add_overwrites(made);
    add_in_place(made);
    add_undefined(made);
    add_probabilities(made);
    return made;
  }();
  return rules;
}

}  // namespace

const OpRule& rule_of(const c10::OperatorHandle& handle) {
  static const OpRule none;
  const auto found = table().find(full_name(handle));
  return found == table().end() ? none : found->second;
}

int32_t argument_index(const c10::OperatorHandle& handle, const std::string& name) {
  const auto& arguments = handle.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == name) return static_cast<int32_t>(i);
  }
  return -1;
}

bool applies(const OpRule& rule, const TorchCall& call) {
  if (rule.only_if.empty()) return true;
  const int32_t index = argument_index(call.handle, rule.only_if);
  if (index < 0) return false;
  const c10::IValue& flag = call.arguments[static_cast<size_t>(index)].constant;
  return flag.isBool() && flag.toBool();
}

std::vector<size_t> shape_only_arguments(const TorchCall& call) {
  std::vector<size_t> found;
  const auto add = [&](const std::string& name) {
    const int32_t index = argument_index(call.handle, name);
    if (index >= 0) found.push_back(static_cast<size_t>(index));
  };
  if (full_name(call.handle) == "aten::convolution_backward") {
    const auto mask =
        call.arguments[static_cast<size_t>(argument_index(call.handle, "output_mask"))]
            .constant.toBoolList();
    if (!mask[0]) add("weight");
    if (!mask[1]) add("input");
    return found;
  }
  const OpRule& rule = rule_of(call.handle);
  if (applies(rule, call)) std::for_each(rule.shape_only.begin(), rule.shape_only.end(), add);
  return found;
}

std::string shape_only_claim(const TorchCall& call, size_t argument) {
  return "shape-only " + call.handle.schema().arguments()[argument].name();
}

std::optional<TorchCall> faster(const TorchCall& call) {
  if (full_name(call.handle) != "aten::bernoulli_.float") return std::nullopt;
  const TensorRef& self = *call.arguments[0].tensors.front();
  int64_t stride = 1;
  for (size_t i = self.sizes.size(); i-- > 0; stride *= self.sizes[i]) {
    if (self.strides[i] != stride) return std::nullopt;
  }
  if (self.dtype != c10::ScalarType::Float || self.is_negative) return std::nullopt;
  TorchCall ours = call;
  ours.handle = c10::Dispatcher::singleton().findSchemaOrThrow("fitstep::bernoulli_", "");
  return ours;
}

bool draws_random_numbers(const c10::OperatorHandle& handle) {
  return handle.hasTag(at::Tag::nondeterministic_seeded);
}

bool has_kernel(const c10::OperatorHandle& handle, c10::Device device) {
  return device.is_cpu() || handle.hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

bool changes_memory(const c10::OperatorHandle& handle) {
  const std::string& name = handle.operator_name().name;
  return name == "aten::set_" || name.starts_with("aten::resize_");
}

bool is_written(const TorchCall& call, size_t index) {
  const c10::Argument& argument = call.handle.schema().arguments()[index];
  if (const auto* alias = argument.alias_info(); alias != nullptr) {
    if (alias->isWrite()) return true;
    const auto& contained = alias->containedTypes();
    if (std::any_of(contained.begin(), contained.end(),
                    [](const c10::AliasInfo& inner) { return inner.isWrite(); }))
      return true;
  }
  const OpRule& rule = rule_of(call.handle);
  return applies(rule, call) && std::find(rule.hidden_writes.begin(), rule.hidden_writes.end(),
                                          argument.name()) != rule.hidden_writes.end();
}

bool may_move(const TorchCall& call, int32_t storage) {
  int tensors = 0;
  bool writes = false;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    for (const auto& tensor : call.arguments[i].tensors) {
      if (!tensor.has_value() || tensor->storage != storage) continue;
      ++tensors;
      writes |= is_written(call, i);
    }
  }
  return tensors == 1 || !writes;
}

}  // namespace fitstep::torch_side

#include "fitstep_torch/operators/operator_facts.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "fitstep_torch/operators/op_rules.h"

namespace fitstep::torch_side {
namespace {

using Kind = OperatorFacts::Kind;

// Return a view although the schema does not say so.
constexpr std::array<std::string_view, 5> kHiddenViews = {
    "aten::_unsafe_view", "aten::lift", "aten::unsafe_split", "aten::unsafe_split_with_sizes",
    "aten::unsafe_chunk"};
// Read values although no tag says so.
constexpr std::array<std::string_view, 4> kHiddenAsks = {
    "aten::_linalg_check_errors", "aten::_assert_async",
    "aten::_nested_tensor_from_mask_left_aligned", "aten::_validate_compressed_sparse_indices"};
// Read only geometry, devices and lengths, although their tags say that results depend on data, or
// although their results are tensors (which a nested tensor holds).
constexpr std::array<std::string_view, 5> kHiddenQueries = {
    "aten::_use_cudnn_ctc_loss", "aten::_use_miopen_ctc_loss", "aten::_nested_tensor_size",
    "aten::_nested_tensor_strides", "aten::_nested_tensor_storage_offsets"};
constexpr std::array<std::string_view, 2> kHiddenDynamic = {
    "aten::_pack_padded_sequence", "aten::_fused_moving_avg_obs_fq_helper"};

template <class Names>
bool is_among(const std::string& name, const Names& names) {
  return std::ranges::find(names, name) != names.end();
}

bool is_written(const c10::AliasInfo* alias) {
  if (alias == nullptr) return false;
  if (alias->isWrite()) return true;
  const auto& contained = alias->containedTypes();
  return std::ranges::any_of(contained,
                             [](const c10::AliasInfo& inner) { return inner.isWrite(); });
}

bool has_tensors(const c10::TypePtr& type) {
  if (type->isSubtypeOf(*c10::OptionalType::ofTensor())) return true;
  if (type->kind() == c10::TypeKind::ListType)
    return has_tensors(type->castRaw<c10::ListType>()->getElementType());
  if (type->kind() == c10::TypeKind::OptionalType)
    return has_tensors(type->castRaw<c10::OptionalType>()->getElementType());
  return false;
}

// Index of the written argument that a result with this alias returns.
int32_t written_argument(const c10::FunctionSchema& schema, const c10::AliasInfo& of) {
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite() && alias->beforeSets() == of.beforeSets())
      return static_cast<int32_t>(i);
  }
  return -1;
}

Kind kind_of(const c10::OperatorHandle& op, const OperatorFacts& facts) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = op.operator_name().name;
  if (name.starts_with("profiler::") || name.starts_with("prim::")) return Kind::Query;
  if (is_among(name, kHiddenQueries)) return Kind::Query;
  if (name.starts_with("c10d::") || name.starts_with("_c10d_functional::")) return Kind::Collective;
  if (op.hasTag(at::Tag::inplace_view) && !changes_memory(op)) return Kind::View;
  if (op.hasTag(at::Tag::data_dependent_output) || is_among(name, kHiddenAsks)) return Kind::Ask;
  const bool is_index = name == "aten::index" || name == "aten::_unsafe_index";
  if ((op.hasTag(at::Tag::dynamic_output_shape) && !is_index) || is_among(name, kHiddenDynamic) ||
      op.operator_name().overload_name == "tensor_indices_or_sections")  // Of tensor_split().
    return Kind::Dynamic;
  // Before views, because to(), contiguous() and reshape() return a view or a copy.
  const bool is_composite =
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
      !op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
  if (is_composite) return Kind::Composite;
  const auto& returns = schema.returns();
  const bool makes_tensors = std::ranges::any_of(
      returns, [](const c10::Argument& one) { return has_tensors(one.type()); });
  if (facts.written.empty()) {
    const bool aliases = std::ranges::all_of(
        returns, [](const c10::Argument& one) { return one.alias_info() != nullptr; });
    if (makes_tensors && (aliases || is_among(name, kHiddenViews))) return Kind::View;
  }
  if (!makes_tensors && facts.written.empty() && !facts.is_random)
    return name.starts_with("aten::") ? Kind::Query : Kind::Ask;
  return Kind::Compute;
}

OperatorFacts make_facts(const c10::OperatorHandle& op) {
  OperatorFacts facts;
  const c10::FunctionSchema& schema = op.schema();
  facts.is_random = draws_random_numbers(op);
  facts.writes_unsaid = !rule_of(op).hidden_writes.empty();
  const std::string& name = op.operator_name().name;
  bool takes_tensors = false;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (is_written(argument.alias_info())) facts.written.push_back(i);
    if (name.starts_with("aten::") && argument.name() == "dropout_p")
      facts.dropout = static_cast<int32_t>(i);
    takes_tensors |= has_tensors(argument.type());
    if (argument.type()->kind() == c10::TypeKind::ListType && has_tensors(argument.type()) &&
        argument.type()->castRaw<c10::ListType>()->getElementType()->kind() ==
            c10::TypeKind::OptionalType)
      facts.optional.push_back(i);
    const c10::TypePtr& type = argument.real_type();
    if (type->kind() == c10::TypeKind::ListType && !has_tensors(type)) facts.makes_by_sizes = true;
  }
  facts.makes_by_sizes |= !takes_tensors;
  facts.is_for_each = name.starts_with("aten::_foreach_") && !facts.written.empty();
  // In a custom operator every number may be a size.
  facts.numbers_are_sizes = name.starts_with("aten::arange") || name.starts_with("aten::range") ||
                            !(name.starts_with("aten::") || name.starts_with("fitstep::"));
  for (const c10::Argument& result : schema.returns()) {
    const auto* alias = result.alias_info();
    facts.argument_of.push_back(
        alias != nullptr && alias->isWrite() ? written_argument(schema, *alias) : -1);
  }
  facts.kind = kind_of(op, facts);
  return facts;
}

}  // namespace

bool may_draw(const OperatorFacts& facts, const c10::OperatorHandle& op,
              const torch::jit::Stack& stack) {
  if (!facts.is_random || facts.dropout < 0) return facts.is_random;
  const size_t first = stack.size() - op.schema().arguments().size();
  const c10::IValue& share = stack[first + static_cast<size_t>(facts.dropout)];
  return !share.isDouble() || share.toDouble() != 0;
}

const OperatorFacts& facts_of(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static auto* const known = new std::unordered_map<c10::OperatorHandle, OperatorFacts>();
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = known->find(op);
  if (found != known->end()) return found->second;  // References stay valid.
  return known->emplace(op, make_facts(op)).first->second;
}

}  // namespace fitstep::torch_side

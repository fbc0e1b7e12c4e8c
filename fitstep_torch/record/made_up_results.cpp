// Results in a preview of operators that need bytes which are not computed yet.
#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>

#include "fitstep_torch/record/follower.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// Makes a value up (1 or True). A wrong value does no harm: it leads to a program that is planned
// ahead, and all that Python does in a preview is undone.
void Follower::make_up(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  at::ScalarType dtype = at::kFloat;
  each_argument(*stack, static_cast<size_t>(count),
                [&](const at::Tensor& one) { dtype = one.scalar_type(); });
  stack->erase(stack->end() - count, stack->end());
  for (const c10::Argument& result : op.schema().returns()) {
    const c10::TypeKind kind = result.real_type()->kind();
    const bool is_flag = kind == c10::TypeKind::BoolType;
    const bool is_whole = kind == c10::TypeKind::IntType;
    if (is_flag || (!is_whole && dtype == at::kBool)) {
      stack->emplace_back(true);
    } else if (is_whole || c10::isIntegralType(dtype, /*includeBool=*/false)) {
      stack->emplace_back(int64_t{1});
    } else {
      stack->emplace_back(1.0);
    }
  }
}

// Runs an operator between two segments. In a preview it does not run; its results have the
// geometry that its fake kernel says.
void Follower::between(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                       torch::jit::Stack* stack) {
  if (refuses_strangers(op, *stack)) return;
  const OperatorFacts& facts = facts_of(op);
  if (python_.flush(full_name(op))) {
    run_and_note(op, facts, keys, stack);
    return;
  }
  TorchCall call = call_of(op, *stack);
  const auto count = static_cast<std::ptrdiff_t>(call.arguments.size());
  const torch::jit::Stack arguments(stack->end() - count, stack->end());
  try {
    call.results = geometries_.of(call, arguments, size_bytes_, device_of(arguments));
  } catch (const NotForeseen&) {
    python_.refuse(full_name(op), "has no fake kernel");
  }
  give_recorded(call, facts, stack);
  reset();  // Its results are externals of the next segment.
}

}  // namespace fitstep::torch_side

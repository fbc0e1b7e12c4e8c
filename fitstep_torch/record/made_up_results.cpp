// Results in a preview of operators that need bytes which are not computed yet.
#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>

#include "fitstep_torch/record/follower.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

// Makes a value up (1 or True). A wrong value does no harm: it leads to a program that is planned
// ahead, and all that Python does in a preview is undone.
void Follower::make_up(const Called& called) {
  torch::jit::Stack* const stack = called.stack;
  at::ScalarType dtype = at::kFloat;
  each_argument(*stack, called.count, [&](const at::Tensor& one) { dtype = one.scalar_type(); });
  torch::jit::drop(*stack, called.count);
  for (const c10::Argument& result : called.op.schema().returns()) {
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
void Follower::between(const Called& called) {
  if (refuses_strangers(called)) return;
  if (python_.flush(full_name(called.op))) {
    run_and_note(called);
    return;
  }
  TorchCall call = call_of(called);
  const auto count = static_cast<std::ptrdiff_t>(called.count);
  const torch::jit::Stack arguments(called.stack->end() - count, called.stack->end());
  try {
    call.results = geometries_.of(call, arguments, met_.size_bytes, device_of(arguments));
  } catch (const NotForeseen&) {
    python_.refuse(full_name(called.op), "has no fake kernel");
  }
  give_recorded(call, called.facts, called.stack);
  reset();  // Its results are externals of the next segment.
}

}  // namespace fitstep::torch_side

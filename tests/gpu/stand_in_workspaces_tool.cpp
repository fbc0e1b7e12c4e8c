// Convolutions as PyTorch has them by cuDNN: several implementations, each with its workspace, of
// which the first is kept that the allocator gives its workspace to, by thread and operands. Where
// FITSTEP_STAND_IN_WORKSPACES is set.
//
//   ranked          A     B     C     D     E
//   workspace       4     2     1     3     0     times the bytes of the first operand
//   bits            -     other -     -     -     than the default's
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "tests/gpu/stand_in_kernels.h"

namespace {

struct Implementation {
  size_t workspaces = 0;
  bool has_other_bits = false;
};
constexpr std::array<Implementation, 5> kRanked = {{{.workspaces = 4},
                                                    {.workspaces = 2, .has_other_bits = true},
                                                    {.workspaces = 1},
                                                    {.workspaces = 3},
                                                    {.workspaces = 0}}};

thread_local std::map<std::string, Implementation> kept;

std::optional<c10::DataPtr> workspace_of(const Implementation& one, size_t size) {
  try {
    return c10::cuda::CUDACachingAllocator::get()->allocate(one.workspaces * size);
  } catch (const c10::OutOfMemoryError&) {
    return std::nullopt;
  }
}

std::string key_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::string key = op.schema().name();
  for (const c10::IValue& value : stack) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    for (const int64_t size : value.toTensor().sizes()) key += " " + std::to_string(size);
    key += ",";
  }
  return key;
}

void change_last_bits(torch::jit::Stack& stack) {
  for (const c10::IValue& value : stack) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    *static_cast<char*>(value.toTensor().mutable_data_ptr()) ^= 1;
  }
}

void convolve(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string key = key_of(op, *stack);
  const at::Tensor& first = stack->front().toTensor();
  const size_t size = first.nbytes();
  std::optional<c10::DataPtr> workspace;
  if (const auto found = kept.find(key); found != kept.end()) {
    workspace = workspace_of(found->second, size);
  }
  for (const Implementation& one : kRanked) {
    if (workspace) break;
    workspace = workspace_of(one, size);
    if (workspace) kept.insert_or_assign(key, one);
  }
  TORCH_CHECK(workspace, "no implementation of a convolution has memory");
  fitstep::stand_in::run_on_host(op, stack);
  if (kept.at(key).has_other_bits) change_last_bits(*stack);
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  if (std::getenv("FITSTEP_STAND_IN_WORKSPACES") == nullptr) return;
  for (const char* const name : {"_slow_conv2d_forward", "_slow_conv2d_backward.output_mask"})
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&convolve>());
}

}  // namespace

// The kernels of one plan, ready to run: tensors at their planned addresses, argument lists, and an
// address for every memory request of a kernel.
//
//   prepared   handle | arguments | expected requests | where each result must be
//   per run    copy arguments -> begin_op -> boxed call -> end_op -> results where planned?
//
// A result at another address is copied into place and counted: a wrong expectation costs time,
// never correctness.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/stack.h>

#include <memory>
#include <span>
#include <vector>

#include "fitstep/run/arena.h"
#include "fitstep/run/executor.h"
#include "fitstep_torch/device.h"
#include "fitstep_torch/lower.h"

namespace fitstep::torch_side {

struct PreparedRun {
  // A result that this call makes.
  struct Made {
    size_t result = 0;        // Position in the returned stack.
    int32_t entry = -1;       // In a returned list; -1 outside.
    char* address = nullptr;  // Its storage's begin; null for an external storage.
    c10::Storage storage;     // At the planned address.
    at::Tensor planned;       // Over `storage`, with the recorded geometry.
  };

  std::optional<c10::OperatorHandle> handle;
  torch::jit::Stack arguments;
  std::vector<Expected> expected;
  int64_t most_unforeseen_bytes = Answers::kNoMost;  // Refuses larger unplanned requests.
  std::vector<Made> made;
  bool grad_mode = false;
  std::optional<at::Generator> restores;  // Generator to restore before the call.
  const char* state = nullptr;            // The saved state.
  OpId op;
};

class PlannedKernels final : public Kernels {
 public:
  // REQUIRES: `plan` passed verify() for step.program and the arena's capacity; all outlive this.
  static Result<std::unique_ptr<PlannedKernels>> make(const StepProgram& step, const Plan& plan,
                                                      Homes& homes);

  // Sets where an input or constant lies in this step: its storage's bytes, and the context of its
  // allocator (for pinned memory from which a GPU copies later).
  void point(StorageId storage, std::span<char> bytes, void* context);

  // Replaces a number in the arguments of all runs of an op, in every form.
  //
  // REQUIRES: `place` is in the default form's call; all forms that run have the same operator.
  void set_number(OpId op, const NumberPlace& place, const c10::IValue& number);

  Status run(int32_t position) override;
  Status copy(int32_t position) override;

  // A tensor of the caller's own for an output of the step that has just run.
  at::Tensor take_output(const TensorRef& output);
  void drop_outputs();  // After a step that stopped.

  // Storages that Python can see and that actions up to `position` write; each once.
  std::vector<StorageId> visible_writes(int32_t position) const;
  int64_t misplaced() const { return misplaced_; }  // Results copied into place so far.

 private:
  PlannedKernels(const StepProgram& step, const Plan& plan, Homes& homes)
      : step_(step),
        plan_(plan),
        homes_(homes),
        arena_(homes.arena()),
        device_(homes.torch_device()) {}

  Status check_copies() const;
  Status prepare_storages();
  Result<char*> address_of(const Residency& residency);
  Status prepare_run(const Run& run, PreparedRun& prepared);
  Status prepare_expected(const Run& run, const Form& form, PreparedRun& prepared);
  c10::Storage storage_for(const Run& run, const Form& form, int32_t storage) const;
  Status call(PreparedRun& prepared);
  void place_results(PreparedRun& prepared);
  void place_result(PreparedRun::Made& made, const at::Tensor& result);

  const StepProgram& step_;
  const Plan& plan_;
  Homes& homes_;
  const Arena& arena_;
  TorchDevice& device_;
  // With a GPU's arena: host memory for CPU tensors and generators, whose planned bytes stay
  // unused.
  std::vector<std::vector<char>> on_host_;
  std::vector<c10::Storage> residencies_;  // By ResidencyId.
  std::vector<ResidencyId> external_;      // By StorageId: its external residency, or none.
  std::vector<PreparedRun> prepared_;      // By position on the compute lane.
  std::vector<std::vector<int32_t>> runs_of_op_;
  std::vector<std::optional<at::Tensor>> outputs_;
  torch::jit::Stack stack_;
  std::vector<std::pair<int32_t, StorageId>> visible_writes_;  // By position.
  int64_t misplaced_ = 0;
};

}  // namespace fitstep::torch_side

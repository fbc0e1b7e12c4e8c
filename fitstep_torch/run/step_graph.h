// A whole step as one CUDA graph, if the step needs nothing from the host.
//
//   run n            ops one by one
//   run n + 1        recorded as a graph, if it has the numbers of run n; then launched
//   later runs       inputs -> copies at fixed addresses; the graph; outputs -> copies
//
// A graph has fixed addresses and numbers. So its inputs and outputs lie in memory of its own,
// outside the arena. If a number changes, ops run one by one again.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"
#include "fitstep/run/executor.h"
#include "fitstep/run/tiered_device.h"
#include "fitstep_torch/device.h"
#include "fitstep_torch/lower.h"
#include "fitstep_torch/run/kernels.h"

namespace fitstep::torch_side {

// An input or a closed-over tensor.
struct External {
  StorageId storage;
  // Recorded offset of the tensor in the program's storage; none if the program uses all of it.
  std::optional<int64_t> offset_bytes = {};

  // The part of the tensor's storage that the program uses.
  std::span<char> bytes_in(const at::Tensor& tensor, const Program& program) const;
};

class StepGraph {
 public:
  // REQUIRES: the arguments outlive this.
  StepGraph(const StepProgram& step, const Plan& plan, Homes& homes, PlannedKernels& kernels);

  // Why ops run one by one, if known; empty if a graph runs the step.
  const std::string& refusal() const { return refusal_.empty() ? changed_ : refusal_; }
  int64_t replays() const { return replays_; }

  // Call before each run with each number among the ops' arguments.
  void note_number(OpId op, size_t number, const c10::IValue& value);

  // Whether the graph runs the coming step. Records a graph if possible.
  //
  // REQUIRES: memory requests of this thread are being served.
  bool prepare(const std::vector<External>& externals, const std::vector<at::Tensor>& tensors,
               CopyLanes* lanes);

  // REQUIRES: prepare() returned true. Runs the whole step, or nothing.
  std::optional<Stopped> replay(const std::vector<at::Tensor>& tensors);

  // After replay(): what the step function returned, as tensors of the caller's own.
  std::vector<at::Tensor> take_outputs() const;

  // Forgets the graph. Call if something besides numbers has changed, such as lanes.
  void forget();

 private:
  Status record(const std::vector<External>& externals, const std::vector<at::Tensor>& tensors,
                CopyLanes* lanes);
  void note_literals();
  void make_inputs(const std::vector<External>& externals, const std::vector<at::Tensor>& tensors);
  void fill_inputs(const std::vector<at::Tensor>& tensors);

  const StepProgram& step_;
  const Plan& plan_;
  Homes& homes_;
  PlannedKernels& kernels_;
  std::string refusal_;
  std::string changed_;  // Message: which number changed in the last run.
  std::map<std::pair<size_t, size_t>, c10::IValue> numbers_;  // By op and number.
  std::vector<std::string> literals_;                         // On the host.
  bool has_run_ = false;                                      // With these numbers and literals.
  struct Input {
    at::Tensor bytes;  // The graph's copy of the used part.
    External of;
  };
  std::vector<Input> inputs_;  // By external.
  std::vector<at::Tensor> outputs_;
  std::unique_ptr<Recorded> recorded_;
  int64_t replays_ = 0;
};

}  // namespace fitstep::torch_side

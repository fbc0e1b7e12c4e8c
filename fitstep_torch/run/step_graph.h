// A whole step given to the device in one go, where it asks nothing of the host.
//
//   run n            ops one by one
//   run n + 1        recorded, if it has the numbers of run n; then given to the device
//   runs after it    inputs -> copies with addresses of their own; the graph; outputs -> copies
//
// A graph has its addresses and numbers for good. So what it reads and returns lies in memory of
// its own, beside the arena; and where a number has changed, ops run one by one again.
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

// An input, or a closed-over tensor: where the recorded program expects its first element.
struct External {
  StorageId storage;
  // Of the tensor in its storage, as recorded; none where the program has all of that storage.
  std::optional<int64_t> offset_bytes = {};

  // Of the tensor's storage: the part that the program has.
  std::span<char> bytes_in(const at::Tensor& tensor, const Program& program) const;
};

class StepGraph {
 public:
  // REQUIRES: all outlive this.
  StepGraph(const StepProgram& step, const Plan& plan, Homes& homes, PlannedKernels& kernels);

  // Why ops run one by one, as far as that is known; empty where a graph does the step.
  const std::string& refusal() const { return refusal_.empty() ? changed_ : refusal_; }
  int64_t replays() const { return replays_; }

  // Before each run, the numbers that it has in the ops' arguments.
  void note_number(OpId op, size_t number, const c10::IValue& value);

  // Whether the graph does the run that is about to begin. Makes one where it is time to.
  //
  // REQUIRES: requests of this thread are being served.
  bool prepare(const std::vector<External>& externals, const std::vector<at::Tensor>& tensors,
               CopyLanes* lanes);

  // After prepare(), which has said yes: all of the step, or nothing.
  std::optional<Stopped> replay(const std::vector<at::Tensor>& tensors);

  // What the step function returned: tensors of the caller's own. After replay().
  std::vector<at::Tensor> take_outputs() const;

  // Something else than numbers has changed: lanes, say. Forgets the graph.
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
  std::string changed_;  // Which number was another one in the last run, if any.
  std::map<std::pair<size_t, size_t>, c10::IValue> numbers_;  // By op and number.
  std::vector<std::string> literals_;                         // Of the host.
  bool has_run_ = false;                                      // With all these.
  struct Input {
    at::Tensor bytes;  // Of the graph's own, as many as the program has of it.
    External of;
  };
  std::vector<Input> inputs_;  // By external.
  std::vector<at::Tensor> outputs_;
  std::unique_ptr<Recorded> recorded_;
  int64_t replays_ = 0;
};

}  // namespace fitstep::torch_side

// A variant: a program, its verified plan, and kernels with planned addresses, ready to run.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"
#include "fitstep_torch/device.h"
#include "fitstep_torch/record.h"
#include "fitstep_torch/run/kernels.h"
#include "fitstep_torch/run/step_graph.h"

namespace fitstep::torch_side {

class Variant {
 public:
  // Verifies the plan against the program and the tiers' capacities; an invalid plan is an error.
  // Only homes may lie below `bottom_bytes`. With `has_graph` steps run as a CUDA graph if
  // possible.
  static Result<std::unique_ptr<Variant>> make(std::shared_ptr<StepProgram> step, Plan plan,
                                               std::shared_ptr<Homes> homes, int64_t bottom_bytes,
                                               bool has_graph);

  // Sets a number for all later runs, also of other variants of the same program.
  void set_number(OpId op, size_t number, const c10::IValue& value);

  // Sets numbers of calls on the tape from which this program was lowered.
  //
  // REQUIRES: the calls were lowered with `has_host_numbers`.
  void set_numbers(const std::vector<ChangedNumber>& changed);

  // Runs one step on the calling thread. `tensors[i]` is the tensor for `externals[i]`.
  std::optional<Stopped> run(const std::vector<External>& externals,
                             const std::vector<at::Tensor>& tensors);

  // Makes the next run measure how many bytes each code needs for its copies to lower tiers.
  void sample_codes();

  // After that run: the same program, with the measured bytes of each code.
  std::shared_ptr<StepProgram> sampled_program() const;

  struct CodedCopy {
    StorageId storage;
    TierId tier;
    Code code = Code::None;
    CopySize size;
  };
  // Copies to a lower tier in a code that have run, with their sizes in the last run.
  std::vector<CodedCopy> coded_copies() const;

  // What the step function returned: tensors of the caller's own, in order. Call once per run.
  std::vector<at::Tensor> take_outputs();

  // Storages that Python can see and that a stopped step may have written. Only the compute lane
  // counts: lanes copy to homes only what it has written, never from the disk.
  std::vector<StorageId> written(const Stopped& stopped) const {
    return kernels_->visible_writes(stopped.compute_position);
  }
  // Storages that a finished step has written.
  std::vector<StorageId> written() const {
    return kernels_->visible_writes(std::numeric_limits<int32_t>::max());
  }

  // Null without `has_graph`.
  const StepGraph* graph() const { return graph_.get(); }

  const Plan& plan() const { return *plan_; }
  const StepProgram& step() const { return *step_; }
  int64_t misplaced() const { return kernels_->misplaced(); }

 private:
  Status open_lanes();
  void put_number(OpId op, size_t number, const c10::IValue& value);
  void point(const std::vector<External>& externals, const std::vector<at::Tensor>& tensors);
  void name_storage(Stopped& stopped) const;

  std::shared_ptr<StepProgram> step_;
  std::unique_ptr<const Plan> plan_;
  std::shared_ptr<Homes> homes_;
  std::unique_ptr<PlannedKernels> kernels_;
  std::unique_ptr<CopyLanes> lanes_;  // Null if the plan has no copies.
  pid_t process_ = 0;                 // The process that has the threads of `lanes_`.
  bool uses_host_ = false;
  bool has_host_codes_ = true;  // False if there is no memory for them.
  std::weak_ptr<Arena> host_;   // The host arena that `lanes_` use.
  std::unique_ptr<StepGraph> graph_;
  bool is_replayed_ = false;                    // The graph did the last run.
  std::vector<std::vector<OpId>> ops_of_call_;  // By call on the tape.
  std::vector<std::pair<at::Generator, std::vector<char>>> generators_;  // States before the step.
};

}  // namespace fitstep::torch_side

// A variant that is ready to run: a program, its verified plan, and the kernels at their addresses.
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
  // Verifies the plan against the program and what the tiers have first; a plan with faults is an
  // error. Nothing but homes may lie below `bottom_bytes`. With `has_graph` runs go to the device
  // as a graph where that can be.
  static Result<std::unique_ptr<Variant>> make(std::shared_ptr<StepProgram> step, Plan plan,
                                               std::shared_ptr<Homes> homes, int64_t bottom_bytes,
                                               bool has_graph);

  // In every run from now on, also of another variant of the same program.
  void set_number(OpId op, size_t number, const c10::IValue& value);

  // Numbers of calls on the tape that this program was lowered from.
  //
  // REQUIRES: the calls were lowered as calls with host numbers.
  void set_numbers(const std::vector<ChangedNumber>& changed);

  // Runs one step on the calling thread. `tensors[i]` is what `externals[i]` stands for.
  std::optional<Stopped> run(const std::vector<External>& externals,
                             const std::vector<at::Tensor>& tensors);

  // Has the next run find out what codes make of what it copies to tiers below.
  void sample_codes();

  // After that run: the same program, which knows now how many bytes each code makes of what was
  // copied.
  std::shared_ptr<StepProgram> sampled_program() const;

  struct CodedCopy {
    StorageId storage;
    TierId tier;
    Code code = Code::None;
    CopySize size;
  };
  // To a tier below, in a code; with the sizes of the last run that made them. None that has yet to
  // run so.
  std::vector<CodedCopy> coded_copies() const;

  // What the step function returned: tensors of the caller's own, in order. Once per run.
  std::vector<at::Tensor> take_outputs();

  // What Python can see and a step that stopped so may have written. What a lane copies to a home
  // has been written by the compute lane before, and what comes from the disk is never copied to
  // one.
  std::vector<StorageId> written(const Stopped& stopped) const {
    return kernels_->visible_writes(stopped.compute_position);
  }
  // By a step that came to its end.
  std::vector<StorageId> written() const {
    return kernels_->visible_writes(std::numeric_limits<int32_t>::max());
  }

  // Null where none was asked for.
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
  std::unique_ptr<CopyLanes> lanes_;  // Null where the plan has none.
  pid_t process_ = 0;                 // The threads of `lanes_` are in this one only.
  bool uses_host_ = false;
  bool has_host_codes_ = true;  // Where the plan has; not where there is no memory to make them.
  std::weak_ptr<Arena> host_;   // Where `lanes_` copy to and from, if they do.
  std::unique_ptr<StepGraph> graph_;
  bool is_replayed_ = false;                    // The last run was the graph's.
  std::vector<std::vector<OpId>> ops_of_call_;  // By call on the tape.
  std::vector<std::pair<at::Generator, std::vector<char>>> generators_;  // As before the step.
};

}  // namespace fitstep::torch_side

// Ctrl-C while a step runs. The first one waits for the end of the step, because a model after half
// a step is of no use. The second one stops the step before its next op.
//
//   SIGINT           1                 2
//   step      op op op op op op op op op |            the other ops do not run: StepFailed
#pragma once

#include <csignal>

namespace fitstep::torch_side {

// While an object of this class exists, SIGINT is counted and not raised.
class Interrupts {
 public:
  // With false nothing changes: Python does not handle interrupts on this thread.
  explicit Interrupts(bool is_interruptible);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int count() const;

 private:
  bool is_watching_ = false;
  struct sigaction before_ = {};
};

// Whether the running step shall stop: a second SIGINT has come.
bool is_interrupted();

}  // namespace fitstep::torch_side

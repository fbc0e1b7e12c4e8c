// Ctrl-C while a step runs. The first one waits for the end of the step, because half a step is no
// state to stop in; the second one stops it in front of the next op.
//
//   SIGINT           1                 2
//   step      op op op op op op op op op |            the rest does not run: StepFailed
#pragma once

#include <csignal>

namespace fitstep::torch_side {

// Keeps SIGINT back while it exists, and counts.
class Interrupts {
 public:
  // Where interrupts are not Python's to handle, nothing changes.
  explicit Interrupts(bool is_interruptible);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  int count() const;

 private:
  bool is_watching_ = false;
  struct sigaction before_ = {};
};

// Whether the step that runs shall stop.
bool is_interrupted();

}  // namespace fitstep::torch_side

#include "fitstep_torch/device/interrupts.h"

#include <atomic>

namespace fitstep::torch_side {
namespace {

// Global, because a signal handler gets no object; lock-free, so that the handler may write.
std::atomic<int> interrupts = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void count_interrupt(int /*signal*/) { interrupts.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

Interrupts::Interrupts(bool is_interruptible) {
  if (!is_interruptible) return;
  struct sigaction action = {};
  action.sa_handler = &count_interrupt;
  action.sa_flags = SA_RESTART;
  interrupts = 0;
  is_watching_ = sigaction(SIGINT, &action, &before_) == 0;
}

Interrupts::~Interrupts() {
  if (!is_watching_) return;
  sigaction(SIGINT, &before_, nullptr);
  interrupts = 0;
}

int Interrupts::count() const { return is_watching_ ? interrupts.load() : 0; }

bool is_interrupted() { return interrupts.load(std::memory_order_relaxed) > 1; }

}  // namespace fitstep::torch_side

// Generators that a step draws from, and how we notice that Python seeds them meanwhile.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "fitstep_torch/record/follower.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {

size_t Follower::generator_number(const at::Generator& generator) {
  const auto found = std::ranges::find(generators_, generator);
  if (found != generators_.end()) return static_cast<size_t>(found - generators_.begin());
  generators_.push_back(generator);
  return generators_.size() - 1;
}

at::Generator Follower::generator_of(const Called& called) const {
  const c10::Device device = device_of(*called.stack);
  at::Generator found = device.is_cpu() ? at::detail::getDefaultCPUGenerator()
                                        : at::globalContext().defaultGenerator(device);
  for (const c10::IValue& argument : torch::jit::last(*called.stack, called.count)) {
    if (argument.isGenerator()) found = argument.toGenerator();
  }
  return found;
}

// Whether Python has seeded the generator since the last recorded draw, which has not run yet.
bool Follower::was_seeded(const at::Generator& generator) {
  std::vector<char> now = state_bytes(generator);
  for (const Drawn& one : drawn_) {
    if (one.generator == generator) return one.seen != now;
  }
  Drawn drawn{.generator = generator, .before = now, .seen = std::move(now)};
  if (mode_ != Mode::Audit && generator.device().is_cpu()) {
    // Moves the state away from that of any seed, so that we also notice the same seed again.
    move_generator(generator);
    drawn.seen = state_bytes(generator);
  }
  drawn_.push_back(std::move(drawn));
  return false;
}

void Follower::put_generators_back() {
  for (const Drawn& one : drawn_) {
    if (mode_ == Mode::Audit || !one.generator.device().is_cpu()) continue;
    if (state_bytes(one.generator) == one.seen) load_generator(one.generator, one.before.data());
  }
  drawn_.clear();
}

}  // namespace fitstep::torch_side

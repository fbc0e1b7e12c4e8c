#include "fitstep_torch/generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>

#include <cstring>
#include <type_traits>

namespace fitstep::torch_side {
namespace {

struct State {
  at::mt19937 engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
};
static_assert(sizeof(State) <= kGeneratorStateBytes);

at::Tensor generator_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(state);
}

TORCH_LIBRARY(fitstep, library) {
  library.def("generator_state() -> Tensor", {at::Tag::nondeterministic_seeded});
  library.def("set_generator_state(Tensor state) -> ()", {at::Tag::nondeterministic_seeded});
}

TORCH_LIBRARY_IMPL(fitstep, CompositeExplicitAutograd, library) {
  library.impl("generator_state", generator_state);
  library.impl("set_generator_state", set_generator_state);
}

}  // namespace

void save_generator(at::Generator generator, char* address) {
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  State state;
  {
    const std::lock_guard<std::mutex> lock(cpu->mutex_);
    state = {.engine = cpu->engine(),
             .next_float = cpu->next_float_normal_sample(),
             .next_double = cpu->next_double_normal_sample()};
  }
  std::memcpy(address, static_cast<const void*>(&state), sizeof state);
}

void load_generator(at::Generator generator, const char* address) {
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  State state;
  std::memcpy(static_cast<void*>(&state), address, sizeof state);
  const std::lock_guard<std::mutex> lock(cpu->mutex_);
  cpu->set_engine(state.engine);
  cpu->set_next_float_normal_sample(state.next_float);
  cpu->set_next_double_normal_sample(state.next_double);
}

}  // namespace fitstep::torch_side

#include "fitstep_torch/tensors/generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <torch/library.h>

#include <array>
#include <cstring>

namespace fitstep::torch_side {
namespace {

// No padding, and absent fields are zero, so equal states are equal bytes.
struct State {
  uint64_t seed;
  int64_t left;
  int64_t is_seeded;
  uint64_t next;
  std::array<uint32_t, at::MERSENNE_STATE_N> state;
  int64_t has_float;
  double next_float;
  int64_t has_double;
  double next_double;
};
static_assert(sizeof(State) == size_t{4 * at::MERSENNE_STATE_N} + 8 * sizeof(int64_t));
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

// Generators of other devices: PyTorch keeps seed and offset on the host.
void save_other(const at::Generator& generator, char* address) {
  const at::Tensor state = generator.get_state();
  TORCH_CHECK(state.nbytes() <= kGeneratorStateBytes, "cannot save a generator state of ",
              state.nbytes(), " bytes");
  std::memcpy(address, state.const_data_ptr(), state.nbytes());
}

void load_other(at::Generator& generator, const char* address) {
  const at::Tensor state = generator.get_state();  // For its size.
  std::memcpy(state.mutable_data_ptr(), address, state.nbytes());
  generator.set_state(state);
}

}  // namespace

void save_generator(at::Generator generator, char* address) {
  if (!generator.device().is_cpu()) {
    save_other(generator, address);
    return;
  }
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  const std::lock_guard<std::mutex> lock(cpu->mutex_);
  const at::mt19937_data_pod engine = cpu->engine().data();
  const std::optional<float> next_float = cpu->next_float_normal_sample();
  const std::optional<double> next_double = cpu->next_double_normal_sample();
  const State state = {.seed = engine.seed_,
                       .left = engine.left_,
                       .is_seeded = engine.seeded_ ? 1 : 0,
                       .next = engine.next_,
                       .state = engine.state_,
                       .has_float = next_float.has_value() ? 1 : 0,
                       .next_float = next_float.value_or(0.0F),
                       .has_double = next_double.has_value() ? 1 : 0,
                       .next_double = next_double.value_or(0.0)};
  std::memcpy(address, &state, sizeof state);
}

void load_generator(at::Generator generator, const char* address) {
  if (!generator.device().is_cpu()) {
    load_other(generator, address);
    return;
  }
  State state;
  std::memcpy(&state, address, sizeof state);
  at::mt19937_data_pod pod;
  pod.seed_ = state.seed;
  pod.left_ = static_cast<int>(state.left);
  pod.seeded_ = state.is_seeded != 0;
  pod.next_ = static_cast<uint32_t>(state.next);
  pod.state_ = state.state;
  at::mt19937 engine;
  engine.set_data(pod);
  std::optional<float> next_float;
  if (state.has_float != 0) {
    next_float = static_cast<float>(state.next_float);
  }
  std::optional<double> next_double;
  if (state.has_double != 0) {
    next_double = state.next_double;
  }
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  const std::lock_guard<std::mutex> lock(cpu->mutex_);
  cpu->set_engine(engine);
  cpu->set_next_float_normal_sample(next_float);
  cpu->set_next_double_normal_sample(next_double);
}

void move_generator(at::Generator generator) {
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  const std::lock_guard<std::mutex> lock(cpu->mutex_);
  for (int i = 0; i < 617; ++i) cpu->random();
}

bool is_default(const at::Generator& generator) {
  const c10::Device device = generator.device();
  return generator == (device.is_cpu() ? at::detail::getDefaultCPUGenerator()
                                       : at::globalContext().defaultGenerator(device));
}

std::vector<char> state_bytes(const at::Generator& generator) {
  std::vector<char> state(kGeneratorStateBytes);
  save_generator(generator, state.data());
  return state;
}

}  // namespace fitstep::torch_side

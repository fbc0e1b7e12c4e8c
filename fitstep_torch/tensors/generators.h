// States of PyTorch's generators as plain bytes, and operators by which a program reads and sets
// the CPU generator's state.
//
//   fitstep::generator_state() -> Tensor          like torch.get_rng_state()
//   fitstep::set_generator_state(Tensor state) -> ()
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <vector>

namespace fitstep::torch_side {

// Size of PyTorch's CPU state; states of other devices are smaller.
inline constexpr int64_t kGeneratorStateBytes = 5056;

// Writes the state to kGeneratorStateBytes at `address`; reads it back. Allocates nothing for a CPU
// generator. Bytes after the state stay unchanged; equal states give equal bytes.
void save_generator(at::Generator generator, char* address);
void load_generator(at::Generator generator, const char* address);
// Moves a CPU generator on, as if some hundred numbers had been drawn.
void move_generator(at::Generator generator);

// Whether operators use this generator if none is given.
bool is_default(const at::Generator& generator);

// A copy of the state.
std::vector<char> state_bytes(const at::Generator& generator);

// A generator from which a step draws: state before, and the state that Python last left or saw.
struct Drawn {
  at::Generator generator;
  std::vector<char> before, seen;
};

}  // namespace fitstep::torch_side

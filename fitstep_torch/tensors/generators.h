// States of PyTorch's generators in plain bytes, and the operators by which a program reads and
// sets that of the CPU.
//
//   fitstep::generator_state() -> Tensor          what torch.get_rng_state() does
//   fitstep::set_generator_state(Tensor state) -> ()
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <vector>

namespace fitstep::torch_side {

// PyTorch's own form of a CPU state; those of other devices are smaller.
inline constexpr int64_t kGeneratorStateBytes = 5056;

// Writes the state to `address` (kGeneratorStateBytes are there), allocating nothing where the
// generator is the CPU's; and back. Bytes behind the state are left as they are; equal states write
// equal bytes.
void save_generator(at::Generator generator, char* address);
void load_generator(at::Generator generator, const char* address);
// As if some hundred numbers had been drawn. Of a CPU.
void move_generator(at::Generator generator);

// Whether it is the one that operators take where none is given.
bool is_default(const at::Generator& generator);

// A copy of the state.
std::vector<char> state_bytes(const at::Generator& generator);

// One that a step draws from: its state before, and that which Python last left or saw.
struct Drawn {
  at::Generator generator;
  std::vector<char> before, seen;
};

}  // namespace fitstep::torch_side

// fitstep::bernoulli_: the bits of aten::bernoulli_.float, several times as fast.
//
// PyTorch draws one number after another. This kernel steps, tempers and compares a whole block of
// the generator's state at once, in loops that vectorise:
//
//   state (624) -> tempered numbers -> pairs of 32 bits -> 53 of them < p * 2^53 ? 1 : 0
//
// The generator is PyTorch's: the Mersenne Twister of Matsumoto and Nishimura (1998). PyTorch's
// uniform double is the low 53 bits of two numbers, so comparing integers equals comparing doubles.
// The profile compares bits, and the generator's state after them, before a plan uses this kernel.
#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "fitstep_torch/own_kernels/vectorised.h"

namespace fitstep::torch_side {
namespace {

constexpr size_t kState = 624;
constexpr size_t kMiddle = 397;
constexpr size_t kElements = 512;  // At a time.
using Numbers = std::array<uint32_t, 2 * kElements>;

inline uint32_t stepped(uint32_t high, uint32_t low, uint32_t other) {
  const uint32_t mixed = (high & 0x80000000U) | (low & 0x7fffffffU);
  return other ^ (mixed >> 1) ^ ((low & 1U) * 0x9908b0dfU);
}

FITSTEP_VECTORISED void step_all(uint32_t* state) {
  for (size_t i = 0; i < kState - kMiddle; ++i)
    state[i] = stepped(state[i], state[i + 1], state[i + kMiddle]);
#pragma GCC ivdep
  for (size_t i = kState - kMiddle; i + 1 < kState; ++i)
    state[i] = stepped(state[i], state[i + 1], state[i + kMiddle - kState]);
  state[kState - 1] = stepped(state[kState - 1], state[0], state[kMiddle - 1]);
}

FITSTEP_VECTORISED void temper(const uint32_t* state, size_t count, uint32_t* numbers) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t y = state[i];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    numbers[i] = y ^ (y >> 18);
  }
}

FITSTEP_VECTORISED void compare(const Numbers& numbers, uint64_t below, size_t count, float* out) {
  constexpr uint64_t kMantissa = (uint64_t{1} << 53) - 1;
  for (size_t i = 0; i < count; ++i) {
    uint64_t pair = 0;
    std::memcpy(&pair, &numbers[2 * i], sizeof pair);  // The first number is the high half.
    const uint64_t drawn = pair << 32 | pair >> 32;
    out[i] = (drawn & kMantissa) < below ? 1.0F : 0.0F;
  }
}

// Draws the next `count` numbers. PyTorch's `left` is one more than the block still has.
void draw(at::mt19937_data_pod& engine, size_t count, uint32_t* numbers) {
  while (count > 0) {
    if (engine.left_ == 1) {
      step_all(engine.state_.data());
      engine.left_ = static_cast<int>(kState) + 1;
      engine.next_ = 0;
    }
    const size_t taken = std::min(count, static_cast<size_t>(engine.left_ - 1));
    temper(engine.state_.data() + engine.next_, taken, numbers);
    engine.left_ -= static_cast<int>(taken);
    engine.next_ += static_cast<uint32_t>(taken);
    numbers += taken;
    count -= taken;
  }
}

at::Tensor& bernoulli(at::Tensor& self, double p, const std::optional<at::Generator>& given) {
  TORCH_CHECK(p >= 0 && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  TORCH_CHECK(self.is_contiguous() && self.scalar_type() == at::kFloat,
              "expected a contiguous float32 tensor");
  auto* generator = at::get_generator_or_default<at::CPUGeneratorImpl>(
      given, at::detail::getDefaultCPUGenerator());
  const auto below = static_cast<uint64_t>(std::ceil(std::ldexp(p, 53)));
  const auto all = static_cast<size_t>(self.numel());
  auto* out = self.mutable_data_ptr<float>();
  const std::lock_guard<std::mutex> lock(generator->mutex_);
  at::mt19937_data_pod engine = generator->engine().data();
  Numbers numbers;
  for (size_t done = 0; done < all; done += kElements) {
    const size_t count = std::min(kElements, all - done);
    draw(engine, 2 * count, numbers.data());
    compare(numbers, below, count, out + done);
  }
  at::mt19937 after;
  after.set_data(engine);
  generator->set_engine(after);
  return self;
}

TORCH_LIBRARY_FRAGMENT(fitstep, library) {
  library.def("bernoulli_(Tensor(a!) self, float p, Generator? generator) -> Tensor(a!)",
              {at::Tag::nondeterministic_seeded});
}

TORCH_LIBRARY_IMPL(fitstep, CPU, library) { library.impl("bernoulli_", bernoulli); }

}  // namespace
}  // namespace fitstep::torch_side

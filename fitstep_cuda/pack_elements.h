// Packing operators, element by element. Threads of a GPU run them; tests run them on the host.
//
//   work      items              each item writes
//   pack      bytes of bits      eight elements' flags: element i is bit i % 8 of byte i / 8
//   read      elements           one element of a gradient
//
// The codes equal those of the CPU's operators (fitstep_torch/own_kernels/pack_*.cpp) bit for bit.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define FITSTEP_ANYWHERE __host__ __device__
#else
#define FITSTEP_ANYWHERE
#endif

namespace fitstep::cuda {

FITSTEP_ANYWHERE inline bool is_set(const uint8_t* bits, int64_t element) {
  return (bits[element / 8] >> (element % 8) & 1) != 0;
}

template <class HasFlag>
FITSTEP_ANYWHERE uint8_t bits_of(int64_t byte, int64_t elements, const HasFlag& has_flag) {
  unsigned all = 0;
  for (int k = 0; k < 8; ++k) {
    const int64_t element = byte * 8 + k;
    if (element < elements && has_flag(element)) all |= 1U << k;
  }
  return static_cast<uint8_t>(all);
}

template <class Number>
struct PackSigns {
  const Number* x;
  int64_t elements;
  bool nan_counts;
  uint8_t* bits;

  FITSTEP_ANYWHERE void operator()(int64_t byte) const {
    bits[byte] = bits_of(byte, elements, [this](int64_t i) {
      return nan_counts ? !(x[i] <= Number{0}) : x[i] > Number{0};
    });
  }
};

struct PackBools {
  const uint8_t* x;
  int64_t elements;
  uint8_t* bits;

  FITSTEP_ANYWHERE void operator()(int64_t byte) const {
    bits[byte] = bits_of(byte, elements, [this](int64_t i) { return x[i] != 0; });
  }
};

// In place: `made` may be `gradient`, here and below.
template <class Number>
struct KeepFlagged {
  const Number* gradient;
  const uint8_t* bits;
  Number* made;

  FITSTEP_ANYWHERE void operator()(int64_t i) const {
    made[i] = is_set(bits, i) ? gradient[i] : Number{0};
  }
};

template <class Number>
struct ScaleUnflagged {
  const Number* gradient;
  const uint8_t* bits;
  Number slope;
  Number* made;

  FITSTEP_ANYWHERE void operator()(int64_t i) const {
    made[i] = is_set(bits, i) ? gradient[i] : gradient[i] * slope;  // As in PyTorch's kernel.
  }
};

template <class Number>
struct MultiplyTwice {
  const Number* gradient;
  const uint8_t* bits;
  Number factor;
  Number* made;

  FITSTEP_ANYWHERE void operator()(int64_t i) const {
    made[i] = gradient[i] * (is_set(bits, i) ? Number{1} : Number{0}) * factor;
  }
};

}  // namespace fitstep::cuda

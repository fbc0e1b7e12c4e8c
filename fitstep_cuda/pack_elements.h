// Packing operators, element by element: what a GPU's threads do, and what tests do on the host.
//
//   work      items              each item writes
//   pack      bytes of bits      eight elements' flags: element i is bit i % 8 of byte i / 8
//   read      elements           one element of a gradient
//   pool      outputs, inputs    one code, one element of a gradient
//
// The codes are those of the CPU's operators (fitstep_torch/pack_*.cpp), bit for bit.
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

// `made` may be `gradient`, here and below.
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
    made[i] = gradient[i] * (is_set(bits, i) ? Number{1} : slope);
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

// Where the windows of a pool lie: rows first. Planes follow each other (one channel), or lie
// beside each other channel by channel.
struct Pool {
  int64_t size[2];     // Of an input plane,
  int64_t outputs[2];  // and of an output plane.
  int64_t channels;
  int64_t kernel[2];
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];
};

// Of an element of a plane: which group of planes, which place in the plane, which channel.
struct PoolPlace {
  int64_t group;
  int64_t row;
  int64_t column;
  int64_t channel;

  FITSTEP_ANYWHERE PoolPlace(int64_t element, const int64_t* plane, int64_t channels)
      : group(element / (plane[0] * plane[1] * channels)),
        row(element / (plane[1] * channels) % plane[0]),
        column(element / channels % plane[1]),
        channel(element % channels) {}
};

struct PackPool {
  const int64_t* indices;  // In the input plane.
  Pool pool;
  uint8_t* codes;

  FITSTEP_ANYWHERE void operator()(int64_t i) const {
    const PoolPlace at(i, pool.outputs, pool.channels);
    const int64_t row = indices[i] / pool.size[1] - at.row * pool.stride[0] + pool.padding[0];
    const int64_t column = indices[i] % pool.size[1] - at.column * pool.stride[1] + pool.padding[1];
    const int64_t code = row / pool.dilation[0] * pool.kernel[1] + column / pool.dilation[1];
    codes[i] = static_cast<uint8_t>(code);
  }
};

// Each input adds the gradients of the outputs that took it, row by row, as PyTorch's kernel does.
template <class Number>
struct AddPooled {
  const Number* gradient;
  const uint8_t* codes;
  Pool pool;
  Number* made;

  FITSTEP_ANYWHERE void operator()(int64_t i) const {
    const PoolPlace at(i, pool.size, pool.channels);
    const int64_t place[2] = {at.row, at.column};
    int64_t first[2];
    int64_t last[2];
    for (int k = 0; k < 2; ++k) {
      const int64_t from_begin = place[k] + pool.padding[k];
      const int64_t reach = (pool.kernel[k] - 1) * pool.dilation[k];
      first[k] =
          from_begin < reach ? 0 : (from_begin - reach + pool.stride[k] - 1) / pool.stride[k];
      const int64_t most = from_begin / pool.stride[k];
      last[k] = most < pool.outputs[k] - 1 ? most : pool.outputs[k] - 1;
    }
    const int64_t group = at.group * pool.outputs[0] * pool.outputs[1] * pool.channels;
    Number sum{0};
    for (int64_t row = first[0]; row <= last[0]; ++row) {
      const int64_t down = place[0] + pool.padding[0] - row * pool.stride[0];
      if (down % pool.dilation[0] != 0) continue;
      for (int64_t column = first[1]; column <= last[1]; ++column) {
        const int64_t right = place[1] + pool.padding[1] - column * pool.stride[1];
        if (right % pool.dilation[1] != 0) continue;
        const int64_t code = down / pool.dilation[0] * pool.kernel[1] + right / pool.dilation[1];
        const int64_t output =
            group + (row * pool.outputs[1] + column) * pool.channels + at.channel;
        if (codes[output] == code) sum += gradient[output];
      }
    }
    made[i] = sum;
  }
};

}  // namespace fitstep::cuda

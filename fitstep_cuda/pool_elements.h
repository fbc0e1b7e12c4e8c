// Max pools with codes, element by element; pack_elements.h has the other packing operators.
//
//   work      items        each item writes
//   MaxPool   outputs      an element and its code
//   PackPool  outputs      a code, from an index
//   AddPooled inputs       an element of a gradient
//
// The codes equal those of the CPU's operators (own_kernels/pack_pool.cpp) bit for bit.
#pragma once

#include <cstdint>

#include "fitstep_cuda/pack_elements.h"

namespace fitstep::cuda {

// The windows of a pool; pairs are rows, columns. channels == 1: planes follow each other. Else the
// memory format is channels last.
struct Pool {
  int64_t size[2];     // Of an input plane,
  int64_t outputs[2];  // and of an output plane.
  int64_t channels;
  int64_t kernel[2];
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];
};

// Place of an element: group of planes, row, column, channel.
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

// Takes the first of equal elements, and NaN before numbers, like PyTorch's kernel.
template <class Number>
struct MaxPool {
  const Number* x;
  Pool pool;
  Number* made;
  uint8_t* codes;

  FITSTEP_ANYWHERE void operator()(int64_t i) const {
    const PoolPlace at(i, pool.outputs, pool.channels);
    const int64_t top = at.row * pool.stride[0] - pool.padding[0];
    const int64_t left = at.column * pool.stride[1] - pool.padding[1];
    const Number* group = x + at.group * pool.size[0] * pool.size[1] * pool.channels;
    Number largest{0};
    int64_t taken = -1;  // None yet.
    for (int64_t code = 0; code < pool.kernel[0] * pool.kernel[1]; ++code) {
      const int64_t row = top + code / pool.kernel[1] * pool.dilation[0];
      const int64_t column = left + code % pool.kernel[1] * pool.dilation[1];
      if (row < 0 || row >= pool.size[0] || column < 0 || column >= pool.size[1]) continue;
      const Number it = group[(row * pool.size[1] + column) * pool.channels + at.channel];
      if (taken >= 0 && !(it > largest) && it == it) continue;
      largest = it;
      taken = code;
    }
    made[i] = largest;
    codes[i] = static_cast<uint8_t>(taken);
  }
};

struct PackPool {
  const int64_t* indices;  // In the input plane.
  Pool pool;
  uint8_t* codes;

  FITSTEP_ANYWHERE void operator()(int64_t i) const {
    const PoolPlace at(i, pool.outputs, pool.channels);
    const int64_t row = indices[i] / pool.size[1] - at.row * pool.stride[0] + pool.padding[0];
    const int64_t column = indices[i] % pool.size[1] - at.column * pool.stride[1] + pool.padding[1];
    codes[i] =
        static_cast<uint8_t>(row / pool.dilation[0] * pool.kernel[1] + column / pool.dilation[1]);
  }
};

// Each input adds the gradients of the outputs that took it, row by row, like PyTorch's kernel.
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

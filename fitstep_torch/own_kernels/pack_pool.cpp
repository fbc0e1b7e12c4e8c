// One byte per element instead of the eight-byte indices of a max pool.
//
//   input   . . . . . .       output (1, 1) of a pool with kernel 2, stride 2 and padding 1;
//           . [. .] . .       index: place of the largest in the plane, 2 * width + 1
//           . [x .] . .       code: its place in the window, row by row, here 2 of 0 .. 3
//
// Backward adds in the order of PyTorch's kernel, output after output of a plane, so the sums have
// the same bits. Both memory formats are supported: contiguous and channels last.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "fitstep_torch/own_kernels/pool_windows.h"
#include "fitstep_torch/own_kernels/vectorised.h"

namespace fitstep::torch_side {
namespace {

at::Tensor pack_pool_indices(const at::Tensor& indices, int64_t height, int64_t width,
                             at::IntArrayRef kernel, at::IntArrayRef stride,
                             at::IntArrayRef padding, at::IntArrayRef dilation) {
  const Windows windows(height, width, kernel, stride, padding, dilation);
  const Outputs outputs(indices);
  at::Tensor codes = at::empty_like(indices, indices.options().dtype(at::kByte));
  const auto* from = indices.const_data_ptr<int64_t>();
  auto* to = codes.mutable_data_ptr<uint8_t>();
  const bool by_steps = windows.has_single_steps();
  outputs.for_each_group([&](int64_t group) {
    const int64_t* index = from + group * outputs.per_group();
    uint8_t* code = to + group * outputs.per_group();
    outputs.walk([&](int64_t row, int64_t column, int64_t at) {
      const int64_t first = windows.first(row, column);
      for (int64_t c = at; c < at + outputs.channels; ++c) {
        code[c] = by_steps ? windows.code_by_steps(index[c] - first)
                           : windows.code_of(index[c], row, column);
      }
    });
  });
  return codes;
}

// The gradient if the output took the element at `code`, else 0. PyTorch adds the gradient to 0,
// which turns -0 into 0; so do we.
template <class Number>
inline Number share(const Number* gradient, const uint8_t* codes, uint8_t code, int64_t i) {
  using Bits = std::conditional_t<sizeof(Number) == sizeof(double), uint64_t, uint32_t>;
  const Bits is_taken{codes[i] == code};
  return Number{0} + std::bit_cast<Number>(std::bit_cast<Bits>(gradient[i]) & (Bits{0} - is_taken));
}
template <class Number>
inline void spread_of(const Number* gradient, const uint8_t* codes, uint8_t code, int64_t count,
                      Number* made) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) made[i] = share(gradient, codes, code, i);
}
// Writes two neighbouring elements for each of `count` outputs.
template <class Number>
inline void spread_pairs_of(const Number* gradient, const uint8_t* codes, uint8_t code,
                            int64_t count, Number* made) {
  const auto next = static_cast<uint8_t>(code + 1);
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    made[2 * i] = share(gradient, codes, code, i);
    made[2 * i + 1] = share(gradient, codes, next, i);
  }
}
FITSTEP_VECTORISED void spread(const float* gradient, const uint8_t* codes, uint8_t code,
                               int64_t count, float* made) {
  spread_of(gradient, codes, code, count, made);
}
FITSTEP_VECTORISED void spread(const double* gradient, const uint8_t* codes, uint8_t code,
                               int64_t count, double* made) {
  spread_of(gradient, codes, code, count, made);
}
FITSTEP_VECTORISED void spread_pairs(const float* gradient, const uint8_t* codes, uint8_t code,
                                     int64_t count, float* made) {
  spread_pairs_of(gradient, codes, code, count, made);
}
FITSTEP_VECTORISED void spread_pairs(const double* gradient, const uint8_t* codes, uint8_t code,
                                     int64_t count, double* made) {
  spread_pairs_of(gradient, codes, code, count, made);
}

// For windows that tile the plane: writes one row of the plane from its row of outputs.
template <class Number>
void spread_row(const Outputs& outputs, const Windows& windows, int64_t down, const uint8_t* codes,
                const Number* gradient, Number* made) {
  const int64_t wide = windows.columns();
  if (outputs.is_contiguous && wide == 2)
    return spread_pairs(gradient, codes, windows.code(down, 0), outputs.columns, made);
  const int64_t channels = outputs.channels;
  for (int64_t column = 0; column < outputs.columns; ++column) {
    const int64_t at = column * channels;
    for (int64_t right = 0; right < wide; ++right)
      spread(gradient + at, codes + at, windows.code(down, right), channels,
             made + at * wide + right * channels);
  }
}

// Writes all rows of the plane; each element once.
template <class Number>
void spread_back(const Outputs& outputs, const Windows& windows, const uint8_t* codes,
                 const Number* gradient, Number* made) {
  const int64_t channels = outputs.channels;
  const int64_t used = outputs.columns * windows.columns() * channels;
  at::parallel_for(0, outputs.groups * windows.height(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % windows.height() / windows.rows();
      Number* to = made + i * windows.width() * channels;
      int64_t written = 0;
      if (row < outputs.rows) {
        const int64_t from =
            (i / windows.height() * outputs.rows + row) * outputs.columns * channels;
        spread_row(outputs, windows, i % windows.height() % windows.rows(), codes + from,
                   gradient + from, to);
        written = used;
      }
      std::fill(to + written, to + windows.width() * channels, Number{0});
    }
  });
}

template <class Number>
void add_back(const Outputs& outputs, const Windows& windows, const uint8_t* codes,
              const Number* gradient, Number* made) {
  const bool is_wide = outputs.is_contiguous || outputs.channels >= 8;
  if (is_wide && windows.are_side_by_side(outputs.rows, outputs.columns))
    return spread_back(outputs, windows, codes, gradient, made);
  const int64_t channels = outputs.channels;
  outputs.for_each_group([&](int64_t group) {
    Number* plane = made + group * windows.plane() * channels;
    std::memset(plane, 0, static_cast<size_t>(windows.plane() * channels) * sizeof(Number));
    const uint8_t* code = codes + group * outputs.per_group();
    const Number* from = gradient + group * outputs.per_group();
    outputs.walk([&](int64_t row, int64_t column, int64_t at) {
      const int64_t first = windows.first(row, column);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t index = first + windows.step(code[at + c]);
        // An invalid code adds nothing.
        if (index >= 0 && index < windows.plane()) plane[index * channels + c] += from[at + c];
      }
    });
  });
}

at::Tensor max_pool2d_backward(const at::Tensor& gradient, const at::Tensor& self,
                               at::IntArrayRef kernel, at::IntArrayRef stride,
                               at::IntArrayRef padding, at::IntArrayRef dilation,
                               bool /*ceil_mode*/, const at::Tensor& codes) {
  const Windows windows(self.size(2), self.size(3), kernel, stride, padding, dilation);
  const Outputs outputs(gradient);
  TORCH_CHECK(codes.strides() == gradient.strides() && codes.sizes() == gradient.sizes(),
              "these are codes of another tensor");
  const bool is_last = outputs.channels > 1;
  at::Tensor made =
      at::empty(self.sizes(), gradient.options(),
                is_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
  const auto* code = codes.const_data_ptr<uint8_t>();
  if (gradient.scalar_type() == at::kDouble) {
    add_back(outputs, windows, code, gradient.const_data_ptr<double>(),
             made.mutable_data_ptr<double>());
  } else {
    add_back(outputs, windows, code, gradient.const_data_ptr<float>(),
             made.mutable_data_ptr<float>());
  }
  return made;
}

TORCH_LIBRARY_FRAGMENT(fitstep, library) {
  library.def(
      "pack_pool_indices(Tensor indices, int height, int width, int[2] kernel_size, "
      "int[2] stride, int[2] padding, int[2] dilation) -> Tensor");
  library.def(
      "max_pool2d_backward_packed(Tensor grad_output, Tensor self, int[2] kernel_size, "
      "int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor codes) -> Tensor");
}

TORCH_LIBRARY_IMPL(fitstep, CPU, library) {
  library.impl("pack_pool_indices", pack_pool_indices);
  library.impl("max_pool2d_backward_packed", max_pool2d_backward);
}

}  // namespace
}  // namespace fitstep::torch_side

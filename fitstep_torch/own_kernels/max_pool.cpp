// A max pool that makes 1-byte codes (pack_pool.cpp) instead of int64 indices.
//
// It computes many outputs at a time: a row of outputs if the image is contiguous, all channels of
// one output if it is channels last. Windows are read in PyTorch's order.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>

#include "fitstep_torch/own_kernels/pool_windows.h"
#include "fitstep_torch/own_kernels/vectorised.h"

namespace fitstep::torch_side {
namespace {

// Codes are as wide as elements here, so that compilers vectorise the loops.
template <class Number>
using Wide = std::conditional_t<sizeof(Number) == sizeof(double), int64_t, int32_t>;

// PyTorch's choice: the first of equal elements; NaN beats every number.
template <class Number>
inline void take_larger_of(const Number* x, int64_t stride, Wide<Number> code, int64_t count,
                           Number* largest, Wide<Number>* codes) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    const Number it = x[i * stride];
    const bool is_taken = (static_cast<int>(it > largest[i]) | static_cast<int>(it != it)) != 0;
    largest[i] = is_taken ? it : largest[i];
    codes[i] = is_taken ? code : codes[i];
  }
}
FITSTEP_VECTORISED void take_larger(const float* x, int64_t stride, int32_t code, int64_t count,
                                    float* largest, int32_t* codes) {
  if (stride == 1) return take_larger_of(x, 1, code, count, largest, codes);
  if (stride == 2) return take_larger_of(x, 2, code, count, largest, codes);
  take_larger_of(x, stride, code, count, largest, codes);
}
FITSTEP_VECTORISED void take_larger(const double* x, int64_t stride, int64_t code, int64_t count,
                                    double* largest, int64_t* codes) {
  if (stride == 1) return take_larger_of(x, 1, code, count, largest, codes);
  if (stride == 2) return take_larger_of(x, 2, code, count, largest, codes);
  take_larger_of(x, stride, code, count, largest, codes);
}
template <class Code>
inline void narrow_of(const Code* codes, int64_t count, uint8_t* made) {
  for (int64_t i = 0; i < count; ++i) made[i] = static_cast<uint8_t>(codes[i]);
}
FITSTEP_VECTORISED void narrow(const int32_t* codes, int64_t count, uint8_t* made) {
  narrow_of(codes, count, made);
}
FITSTEP_VECTORISED void narrow(const int64_t* codes, int64_t count, uint8_t* made) {
  narrow_of(codes, count, made);
}

constexpr int64_t kAtOnce = 256;  // Outputs.

// Maxima and their codes so far, of up to kAtOnce outputs.
template <class Number>
struct Found {
  Number largest[kAtOnce];
  Wide<Number> codes[kAtOnce];

  void keep(int64_t count, Number* made, uint8_t* made_codes) const {
    std::copy_n(largest, count, made);
    narrow(codes, count, made_codes);
  }
};

// Computes one row of outputs of a plane.
template <class Number>
void pool_row(const Windows& windows, const Number* plane, int64_t row, int64_t outputs,
              Number* made, uint8_t* codes) {
  const auto [top, bottom] = windows.in_plane(0, row);
  Found<Number> found;
  for (int64_t begin = 0; begin < outputs; begin += kAtOnce) {
    const int64_t end = std::min(begin + kAtOnce, outputs);
    std::fill_n(found.largest, end - begin, -std::numeric_limits<Number>::infinity());
    for (int64_t i = begin; i < end; ++i)
      found.codes[i - begin] = windows.code(top, windows.in_plane(1, i)[0]);
    for (int64_t down = top; down < bottom; ++down) {
      for (int64_t right = 0; right < windows.columns(); ++right) {
        const std::array<int64_t, 2> all = windows.with_column(right, end);
        const int64_t first = std::max(all[0], begin);
        if (first >= all[1]) continue;
        take_larger(plane + windows.first(row, first) + windows.step(down, right), windows.stride(),
                    windows.code(down, right), all[1] - first, found.largest + (first - begin),
                    found.codes + (first - begin));
      }
    }
    found.keep(end - begin, made + begin, codes + begin);
  }
}

// Computes all channels of one output; channels are last.
template <class Number>
void pool_place(const Windows& windows, const Number* image, int64_t row, int64_t column,
                int64_t channels, Number* made, uint8_t* codes) {
  const auto [top, bottom] = windows.in_plane(0, row);
  const auto [left, right_end] = windows.in_plane(1, column);
  Found<Number> found;
  for (int64_t begin = 0; begin < channels; begin += kAtOnce) {
    const int64_t count = std::min(kAtOnce, channels - begin);
    std::fill_n(found.largest, count, -std::numeric_limits<Number>::infinity());
    std::fill_n(found.codes, count, windows.code(top, left));
    for (int64_t down = top; down < bottom; ++down) {
      for (int64_t right = left; right < right_end; ++right) {
        const int64_t at = windows.first(row, column) + windows.step(down, right);
        take_larger(image + at * channels + begin, 1, windows.code(down, right), count,
                    found.largest, found.codes);
      }
    }
    found.keep(count, made + begin, codes + begin);
  }
}

template <class Number>
void pool_all(const Outputs& outputs, const Windows& windows, const Number* x, Number* made,
              uint8_t* codes) {
  const int64_t per_row = outputs.columns * outputs.channels;
  at::parallel_for(0, outputs.groups * outputs.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % outputs.rows;
      const Number* group = x + i / outputs.rows * windows.plane() * outputs.channels;
      if (outputs.is_contiguous) {
        pool_row(windows, group, row, outputs.columns, made + i * per_row, codes + i * per_row);
        continue;
      }
      for (int64_t column = 0; column < outputs.columns; ++column) {
        const int64_t at = i * per_row + column * outputs.channels;
        pool_place(windows, group, row, column, outputs.channels, made + at, codes + at);
      }
    }
  });
}

std::tuple<at::Tensor, at::Tensor> max_pool2d_with_codes(
    const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
    at::IntArrayRef dilation, bool ceil_mode, bool channels_last) {
  const auto format = channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  TORCH_CHECK(self.dim() == 4 && self.is_contiguous(format),
              "expected images in this memory format");
  const Windows windows(self.size(2), self.size(3), kernel, stride, padding, dilation);
  const std::array<int64_t, 4> sizes = {self.size(0), self.size(1), windows.outputs(0, ceil_mode),
                                        windows.outputs(1, ceil_mode)};
  at::Tensor made = at::empty(sizes, self.options(), format);
  at::Tensor codes = at::empty(sizes, self.options().dtype(at::kByte), format);
  const Outputs outputs(made, channels_last);
  if (self.scalar_type() == at::kDouble) {
    pool_all(outputs, windows, self.const_data_ptr<double>(), made.mutable_data_ptr<double>(),
             codes.mutable_data_ptr<uint8_t>());
  } else {
    pool_all(outputs, windows, self.const_data_ptr<float>(), made.mutable_data_ptr<float>(),
             codes.mutable_data_ptr<uint8_t>());
  }
  return {made, codes};
}

TORCH_LIBRARY_FRAGMENT(fitstep, library) {
  library.def(
      "max_pool2d_with_codes(Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, "
      "int[2] dilation, bool ceil_mode, bool channels_last) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(fitstep, CPU, library) {
  library.impl("max_pool2d_with_codes", max_pool2d_with_codes);
}

}  // namespace
}  // namespace fitstep::torch_side

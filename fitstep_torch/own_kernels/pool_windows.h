// Positions of the windows of a pool, and the memory order of its outputs.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Pool.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace fitstep::torch_side {

// Two numbers from an argument that has two, one for both, or none (`otherwise`).
inline std::array<int64_t, 2> pair_of(at::IntArrayRef list, int64_t otherwise) {
  if (list.empty()) return {otherwise, otherwise};
  return {list[0], list.size() > 1 ? list[1] : list[0]};
}

// The windows of a pool in a plane of `height` rows and `width` columns.
class Windows {
 public:
  Windows(int64_t height, int64_t width, at::IntArrayRef kernel, at::IntArrayRef stride,
          at::IntArrayRef padding, at::IntArrayRef dilation)
      : height_(height),
        width_(width),
        kernel_(pair_of(kernel, 1)),
        stride_(pair_of(stride, 0)),
        padding_(pair_of(padding, 0)),
        dilation_(pair_of(dilation, 1)) {
    if (stride.empty()) stride_ = kernel_;
    TORCH_CHECK(kernel_[0] * kernel_[1] <= 256, "expected a window of at most 256 elements");
    for (int64_t row = 0; row < kernel_[0]; ++row) {
      for (int64_t column = 0; column < kernel_[1]; ++column)
        steps_.push_back(row * dilation_[0] * width_ + column * dilation_[1]);
    }
  }

  // Index in the plane of the window's first element; in the padding it may lie outside the plane.
  int64_t first(int64_t row, int64_t column) const {
    return (row * stride_[0] - padding_[0]) * width_ + column * stride_[1] - padding_[1];
  }

  // Window rows (columns if `side` is 1) that lie in the plane for this output: [first, last).
  std::array<int64_t, 2> in_plane(int64_t side, int64_t output) const {
    const auto s = static_cast<size_t>(side);
    const int64_t size = side == 0 ? height_ : width_;
    const int64_t begin = output * stride_[s] - padding_[s];
    const int64_t first = begin >= 0 ? 0 : (-begin + dilation_[s] - 1) / dilation_[s];
    const int64_t last = begin >= size ? 0 : (size - 1 - begin) / dilation_[s] + 1;
    return {first, std::min(last, kernel_[s])};
  }

  // Outputs of a row of `outputs` whose window column `column` lies in the plane: [first, last).
  std::array<int64_t, 2> with_column(int64_t column, int64_t outputs) const {
    const int64_t offset = column * dilation_[1] - padding_[1];
    const int64_t first = offset >= 0 ? 0 : (-offset + stride_[1] - 1) / stride_[1];
    const int64_t last = offset >= width_ ? 0 : (width_ - 1 - offset) / stride_[1] + 1;
    return {first, std::min(last, outputs)};
  }

  int64_t outputs(int64_t side, bool ceil_mode) const {
    const auto s = static_cast<size_t>(side);
    return at::native::pooling_output_shape<int64_t>(
        side == 0 ? height_ : width_, kernel_[s], padding_[s], stride_[s], dilation_[s], ceil_mode);
  }
  // Whether `rows` x `columns` windows tile the plane from its first element, without padding.
  bool are_side_by_side(int64_t rows, int64_t columns) const {
    return stride_ == kernel_ && padding_ == std::array<int64_t, 2>{0, 0} &&
           dilation_ == std::array<int64_t, 2>{1, 1} && rows * kernel_[0] <= height_ &&
           columns * kernel_[1] <= width_;
  }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  int64_t rows() const { return kernel_[0]; }
  int64_t columns() const { return kernel_[1]; }
  int64_t stride() const { return stride_[1]; }  // Along a row.
  uint8_t code(int64_t row, int64_t column) const {
    return static_cast<uint8_t>(row * kernel_[1] + column);
  }
  // Distance from the window's first element, in elements of a plane.
  int64_t step(int64_t row, int64_t column) const {
    return row * dilation_[0] * width_ + column * dilation_[1];
  }

  // REQUIRES: the index lies in the window of this output.
  uint8_t code_of(int64_t index, int64_t row, int64_t column) const {
    const int64_t down = (index / width_ - row * stride_[0] + padding_[0]) / dilation_[0];
    const int64_t right = (index % width_ - column * stride_[1] + padding_[1]) / dilation_[1];
    return static_cast<uint8_t>(down * kernel_[1] + right);
  }

  // Whether code_by_steps() works: window rows do not overlap, so a distance has one code.
  bool has_single_steps() const { return (kernel_[1] - 1) * dilation_[1] < dilation_[0] * width_; }
  // The code for a distance from the window's first element. No branches: compilers vectorise it.
  uint8_t code_by_steps(int64_t from_first) const {
    const int64_t down = dilation_[0] * width_;
    int64_t rows = 0;
    for (int64_t row = 1; row < kernel_[0]; ++row) rows += from_first >= row * down ? 1 : 0;
    const int64_t from_row = from_first - rows * down;
    int64_t columns = 0;
    for (int64_t column = 1; column < kernel_[1]; ++column)
      columns += from_row >= column * dilation_[1] ? 1 : 0;
    return static_cast<uint8_t>(rows * kernel_[1] + columns);
  }

  int64_t step(uint8_t code) const { return code < steps_.size() ? steps_[code] : -first(0, 0); }
  int64_t plane() const { return height_ * width_; }

 private:
  int64_t height_;
  int64_t width_;
  std::array<int64_t, 2> kernel_;
  std::array<int64_t, 2> stride_;
  std::array<int64_t, 2> padding_;
  std::array<int64_t, 2> dilation_;
  std::vector<int64_t> steps_;  // By code: distance from the window's first element.
};

// Outputs of a pool in contiguous or channels-last memory format.
struct Outputs {
  int64_t groups = 0;  // Planes; images if channels are last.
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t channels = 1;  // Beside each other; 1 if contiguous.
  bool is_contiguous = true;

  explicit Outputs(const at::Tensor& tensor) : Outputs(tensor, !tensor.is_contiguous()) {}
  Outputs(const at::Tensor& tensor, bool channels_last)
      : rows(tensor.size(2)), columns(tensor.size(3)), is_contiguous(!channels_last) {
    TORCH_CHECK(is_contiguous || tensor.is_contiguous(at::MemoryFormat::ChannelsLast),
                "expected a contiguous or a channels-last tensor");
    groups = is_contiguous ? tensor.size(0) * tensor.size(1) : tensor.size(0);
    channels = is_contiguous ? 1 : tensor.size(1);
  }

  int64_t per_group() const { return rows * columns * channels; }

  // Calls `work(group)` for every group, on several threads.
  template <class Work>
  void for_each_group(const Work& work) const {
    at::parallel_for(0, groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t group = begin; group < end; ++group) work(group);
    });
  }

  // Calls `work(row, column, position of its first channel)` for the outputs of a group, in order.
  template <class Work>
  void walk(const Work& work) const {
    int64_t position = 0;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column, position += channels)
        work(row, column, position);
    }
  }
};

}  // namespace fitstep::torch_side

// One byte per element in place of the indices of a max pool, which have eight.
//
//   input   . . . . . .       an index says where in the plane the largest is: 3 * width + 4;
//           . [. .] . .       the byte says where in its window, row by row: here 2 of 0 .. 3,
//           . [x .] . .       for output (1, 0) of a pool with kernel 2, stride 2 and padding
//
// Backward adds in the order of PyTorch's kernel, output after output of a plane, so the sums have
// the same bits. Both memory formats are packed: planes one after another, and channels last.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

namespace fitstep::torch_side {
namespace {

// As an argument of two numbers, or one for both.
std::array<int64_t, 2> pair_of(at::IntArrayRef list, int64_t otherwise) {
  if (list.empty()) return {otherwise, otherwise};
  return {list[0], list.size() > 1 ? list[1] : list[0]};
}

// Where the windows of a pool lie in a plane.
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
    TORCH_CHECK(kernel_[0] * kernel_[1] <= 256, "a window of at most 256 elements");
    for (int64_t row = 0; row < kernel_[0]; ++row) {
      for (int64_t column = 0; column < kernel_[1]; ++column)
        steps_.push_back(row * dilation_[0] * width_ + column * dilation_[1]);
    }
  }

  // Index in the plane of the window's first element; not in it where there is padding.
  int64_t first(int64_t row, int64_t column) const {
    return (row * stride_[0] - padding_[0]) * width_ + column * stride_[1] - padding_[1];
  }

  // REQUIRES: the index lies in the window of this output.
  uint8_t code_of(int64_t index, int64_t row, int64_t column) const {
    const int64_t down = (index / width_ - row * stride_[0] + padding_[0]) / dilation_[0];
    const int64_t right = (index % width_ - column * stride_[1] + padding_[1]) / dilation_[1];
    return static_cast<uint8_t>(down * kernel_[1] + right);
  }

  // The same by comparing, where each step of the window is met once and rows do not touch.
  bool has_single_steps() const { return (kernel_[1] - 1) * dilation_[1] < dilation_[0] * width_; }
  // No branch depends on an index, so that compilers vectorise it, and all take the same time.
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
  std::vector<int64_t> steps_;  // By code: from the window's first element.
};

// Outputs of planes that follow each other, or lie beside each other channel by channel.
struct Outputs {
  int64_t groups = 0;  // Planes, or images.
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t channels = 1;  // That lie beside each other.

  explicit Outputs(const at::Tensor& tensor) : rows(tensor.size(2)), columns(tensor.size(3)) {
    const bool is_contiguous = tensor.is_contiguous();
    TORCH_CHECK(is_contiguous || tensor.is_contiguous(at::MemoryFormat::ChannelsLast),
                "planes one after another, or channels last");
    groups = is_contiguous ? tensor.size(0) * tensor.size(1) : tensor.size(0);
    channels = is_contiguous ? 1 : tensor.size(1);
  }

  int64_t per_group() const { return rows * columns * channels; }

  // Calls `work(group)` by several threads.
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

template <class Number>
void add_back(const Outputs& outputs, const Windows& windows, const uint8_t* codes,
              const Number* gradient, Number* made) {
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
        // Codes that no pool makes add nothing.
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
              "codes of another tensor");
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

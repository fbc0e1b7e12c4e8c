// The packing operators on a GPU; fitstep_torch/own_kernels/pack_*.cpp describes each of them.
#include <ATen/core/Tensor.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/Scalar.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <cstdint>
#include <tuple>

#include "fitstep/base/result.h"
#include "fitstep_cuda/launch.h"
#include "fitstep_cuda/pack_elements.h"
#include "fitstep_cuda/pool_elements.h"

namespace fitstep::torch_cuda {
namespace {

template <class Work>
void run(const Work& work, int64_t items, const at::Tensor& on) {
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(on.device().index());
  const Status status = cuda::launch(work, items, stream.stream());
  if (!status) TORCH_CHECK(false, status.error().message);
}

int64_t bytes_of_bits(const at::Tensor& of) { return (of.numel() + 7) / 8; }

void check_dense(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_non_overlapping_and_dense(),
              "a tensor whose elements fill its memory only");
}

at::Tensor empty_bits(const at::Tensor& of) {
  check_dense(of);
  return at::empty({bytes_of_bits(of)}, of.options().dtype(at::kByte));
}

void check_bits(const at::Tensor& gradient, const at::Tensor& bits) {
  check_dense(gradient);
  TORCH_CHECK(bits.numel() == bytes_of_bits(gradient), "bits of another tensor");
}

at::Tensor pack_signs(const at::Tensor& self, bool nan_counts) {
  at::Tensor bits = empty_bits(self);
  const auto pack = [&]<class Number>(Number /*of the same type*/) {
    run(cuda::PackSigns<Number>{self.const_data_ptr<Number>(), self.numel(), nan_counts,
                                bits.mutable_data_ptr<uint8_t>()},
        bits.numel(), self);
  };
  self.scalar_type() == at::kDouble ? pack(0.0) : pack(0.0F);
  return bits;
}

at::Tensor pack_bools(const at::Tensor& self) {
  at::Tensor bits = empty_bits(self);
  run(cuda::PackBools{static_cast<const uint8_t*>(self.const_data_ptr()), self.numel(),
                      bits.mutable_data_ptr<uint8_t>()},
      bits.numel(), self);
  return bits;
}

at::Tensor threshold_backward(const at::Tensor& gradient, const at::Tensor& bits,
                              const at::Scalar& threshold) {
  check_bits(gradient, bits);
  TORCH_CHECK(threshold.toDouble() == 0, "signs say on which side of 0 an element is");
  at::Tensor made = at::empty_like(gradient);
  const auto keep = [&]<class Number>(Number /*of the same type*/) {
    run(cuda::KeepFlagged<Number>{gradient.const_data_ptr<Number>(), bits.const_data_ptr<uint8_t>(),
                                  made.mutable_data_ptr<Number>()},
        gradient.numel(), gradient);
  };
  gradient.scalar_type() == at::kDouble ? keep(0.0) : keep(0.0F);
  return made;
}

at::Tensor leaky_relu_backward(const at::Tensor& gradient, const at::Tensor& bits,
                               const at::Scalar& negative_slope, bool /*self_is_result*/) {
  check_bits(gradient, bits);
  at::Tensor made = at::empty_like(gradient);
  const auto scale = [&]<class Number>(Number slope) {
    run(cuda::ScaleUnflagged<Number>{gradient.const_data_ptr<Number>(),
                                     bits.const_data_ptr<uint8_t>(), slope,
                                     made.mutable_data_ptr<Number>()},
        gradient.numel(), gradient);
  };
  gradient.scalar_type() == at::kDouble ? scale(negative_slope.to<double>())
                                        : scale(negative_slope.to<float>());
  return made;
}

at::Tensor native_dropout_backward(const at::Tensor& gradient, const at::Tensor& bits,
                                   double factor) {
  check_bits(gradient, bits);
  at::Tensor made = at::empty_like(gradient);
  const auto multiply = [&]<class Number>(Number by) {
    run(cuda::MultiplyTwice<Number>{gradient.const_data_ptr<Number>(),
                                    bits.const_data_ptr<uint8_t>(), by,
                                    made.mutable_data_ptr<Number>()},
        gradient.numel(), gradient);
  };
  gradient.scalar_type() == at::kDouble ? multiply(factor) : multiply(static_cast<float>(factor));
  return made;
}

// Sets two numbers from an argument with two numbers, or one for both.
void set_pair(int64_t* pair, at::IntArrayRef list) {
  pair[0] = list[0];
  pair[1] = list.size() > 1 ? list[1] : list[0];
}

cuda::Pool pool_of(const at::Tensor& outputs, int64_t height, int64_t width, at::IntArrayRef kernel,
                   at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation) {
  const bool is_contiguous = outputs.is_contiguous();
  TORCH_CHECK(is_contiguous || outputs.is_contiguous(at::MemoryFormat::ChannelsLast),
              "planes one after another, or channels last");
  cuda::Pool pool{};
  pool.size[0] = height;
  pool.size[1] = width;
  pool.outputs[0] = outputs.size(2);
  pool.outputs[1] = outputs.size(3);
  pool.channels = is_contiguous ? 1 : outputs.size(1);
  set_pair(pool.kernel, kernel);
  set_pair(pool.stride, stride.empty() ? kernel : stride);
  set_pair(pool.padding, padding);
  set_pair(pool.dilation, dilation);
  TORCH_CHECK(pool.kernel[0] * pool.kernel[1] <= 256, "a window of at most 256 elements");
  return pool;
}

at::Tensor pack_pool_indices(const at::Tensor& indices, int64_t height, int64_t width,
                             at::IntArrayRef kernel, at::IntArrayRef stride,
                             at::IntArrayRef padding, at::IntArrayRef dilation) {
  const cuda::Pool pool = pool_of(indices, height, width, kernel, stride, padding, dilation);
  at::Tensor codes = at::empty_like(indices, indices.options().dtype(at::kByte));
  run(cuda::PackPool{indices.const_data_ptr<int64_t>(), pool, codes.mutable_data_ptr<uint8_t>()},
      indices.numel(), indices);
  return codes;
}

std::tuple<at::Tensor, at::Tensor> max_pool2d_with_codes(
    const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
    at::IntArrayRef dilation, bool ceil_mode, bool channels_last) {
  const auto format = channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  TORCH_CHECK(self.dim() == 4 && self.is_contiguous(format), "images of that memory format");
  const int64_t size[2] = {self.size(2), self.size(3)};
  int64_t sizes[4] = {self.size(0), self.size(1), 0, 0};
  for (size_t side = 0; side < 2; ++side) {
    const auto of = [&](at::IntArrayRef list) { return list[list.size() > 1 ? side : 0]; };
    sizes[2 + side] = at::native::pooling_output_shape<int64_t>(
        size[side], of(kernel), of(padding), of(stride.empty() ? kernel : stride), of(dilation),
        ceil_mode);
  }
  at::Tensor made = at::empty(sizes, self.options(), format);
  at::Tensor codes = at::empty(sizes, self.options().dtype(at::kByte), format);
  cuda::Pool pool = pool_of(made, size[0], size[1], kernel, stride, padding, dilation);
  pool.channels = channels_last ? self.size(1) : 1;
  const auto apply = [&]<class Number>(Number /*of the same type*/) {
    run(cuda::MaxPool<Number>{self.const_data_ptr<Number>(), pool, made.mutable_data_ptr<Number>(),
                              codes.mutable_data_ptr<uint8_t>()},
        made.numel(), self);
  };
  self.scalar_type() == at::kDouble ? apply(0.0) : apply(0.0F);
  return {made, codes};
}

at::Tensor max_pool2d_backward(const at::Tensor& gradient, const at::Tensor& self,
                               at::IntArrayRef kernel, at::IntArrayRef stride,
                               at::IntArrayRef padding, at::IntArrayRef dilation,
                               bool /*ceil_mode*/, const at::Tensor& codes) {
  TORCH_CHECK(codes.strides() == gradient.strides() && codes.sizes() == gradient.sizes(),
              "codes of another tensor");
  const cuda::Pool pool =
      pool_of(gradient, self.size(2), self.size(3), kernel, stride, padding, dilation);
  at::Tensor made =
      at::empty(self.sizes(), gradient.options(),
                pool.channels > 1 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
  const auto add = [&]<class Number>(Number /*of the same type*/) {
    run(cuda::AddPooled<Number>{gradient.const_data_ptr<Number>(), codes.const_data_ptr<uint8_t>(),
                                pool, made.mutable_data_ptr<Number>()},
        made.numel(), gradient);
  };
  gradient.scalar_type() == at::kDouble ? add(0.0) : add(0.0F);
  return made;
}

TORCH_LIBRARY_IMPL(fitstep, CUDA, library) {
  library.impl("pack_signs", pack_signs);
  library.impl("threshold_backward_packed", threshold_backward);
  library.impl("leaky_relu_backward_packed", leaky_relu_backward);
  library.impl("pack_bools", pack_bools);
  library.impl("native_dropout_backward_packed", native_dropout_backward);
  library.impl("pack_pool_indices", pack_pool_indices);
  library.impl("max_pool2d_with_codes", max_pool2d_with_codes);
  library.impl("max_pool2d_backward_packed", max_pool2d_backward);
}

}  // namespace
}  // namespace fitstep::torch_cuda

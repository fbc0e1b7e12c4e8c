// One bit per element instead of an activation of which backward reads only the sign.
//
//   relu -> y -> pack_signs -> bits -> threshold_backward_packed
//
// Bits follow the memory order of y; a gradient must have the same strides. NaN counts as in
// PyTorch's kernel: `self <= 0` keeps the gradient of NaN, `self > 0` does not.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/Scalar.h>
#include <torch/library.h>

#include <type_traits>

#include "fitstep_torch/own_kernels/bits.h"

namespace fitstep::torch_side {

at::Tensor empty_bytes(int64_t count) {
  return at::empty({count}, at::TensorOptions().dtype(at::kByte));
}

namespace {

FITSTEP_VECTORISED void flag_not_at_most_zero(const float* x, int64_t count, uint8_t* flags) {
  for (int64_t i = 0; i < count; ++i) flags[i] = x[i] <= 0.0F ? 0 : 1;
}
FITSTEP_VECTORISED void flag_not_at_most_zero(const double* x, int64_t count, uint8_t* flags) {
  for (int64_t i = 0; i < count; ++i) flags[i] = x[i] <= 0.0 ? 0 : 1;
}
FITSTEP_VECTORISED void flag_above_zero(const float* x, int64_t count, uint8_t* flags) {
  for (int64_t i = 0; i < count; ++i) flags[i] = x[i] > 0.0F ? 1 : 0;
}
FITSTEP_VECTORISED void flag_above_zero(const double* x, int64_t count, uint8_t* flags) {
  for (int64_t i = 0; i < count; ++i) flags[i] = x[i] > 0.0 ? 1 : 0;
}

// For two-byte floats, by their bits; bits above `infinity` are NaN.
FITSTEP_VECTORISED void flag_halves(const uint16_t* x, uint16_t infinity, bool nan_counts,
                                    int64_t count, uint8_t* flags) {
  const auto most = static_cast<uint16_t>(nan_counts ? 0x7fff : infinity);
  const auto least_negative = static_cast<uint16_t>(nan_counts ? infinity | 0x8000 : 0xffff);
  for (int64_t i = 0; i < count; ++i) {
    const bool is_above = x[i] >= 1 && x[i] <= most;
    flags[i] = is_above || x[i] > least_negative ? 1 : 0;
  }
}

// `out` may be `x`: each element is read before it is written.
template <class Bits>
inline void keep_flagged(const Bits* x, const uint8_t* flags, int64_t count, Bits* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] & (Bits{0} - Bits{flags[i]});
}
FITSTEP_VECTORISED void keep(const uint32_t* x, const uint8_t* flags, int64_t count,
                             uint32_t* out) {
  keep_flagged(x, flags, count, out);
}
FITSTEP_VECTORISED void keep(const uint64_t* x, const uint8_t* flags, int64_t count,
                             uint64_t* out) {
  keep_flagged(x, flags, count, out);
}

template <class Number>
inline void scale_unflagged(const Number* x, const uint8_t* flags, Number slope, int64_t count,
                            Number* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] * (flags[i] != 0 ? Number{1} : slope);
}
FITSTEP_VECTORISED void scale(const float* x, const uint8_t* flags, float slope, int64_t count,
                              float* out) {
  scale_unflagged(x, flags, slope, count, out);
}
FITSTEP_VECTORISED void scale(const double* x, const uint8_t* flags, double slope, int64_t count,
                              double* out) {
  scale_unflagged(x, flags, slope, count, out);
}

void check_gradient(const at::Tensor& gradient, const at::Tensor& bits) {
  TORCH_CHECK(is_dense(gradient), "expected a gradient without gaps in memory");
  TORCH_CHECK(bits.numel() == bytes_of_bits(gradient.numel()), "these are bits of another tensor");
}

template <class Number>
void pack(const at::Tensor& self, bool nan_counts, uint8_t* bits) {
  const Number* x = self.const_data_ptr<Number>();
  pack_flags(self.numel(), bits, [&](int64_t first, int64_t count, uint8_t* flags) {
    if (nan_counts) {
      flag_not_at_most_zero(x + first, count, flags);
    } else {
      flag_above_zero(x + first, count, flags);
    }
  });
}

void pack_halves(const at::Tensor& self, bool nan_counts, uint8_t* bits) {
  const auto* x = static_cast<const uint16_t*>(self.const_data_ptr());
  const uint16_t infinity = self.scalar_type() == at::kHalf ? 0x7c00 : 0x7f80;
  pack_flags(self.numel(), bits, [&](int64_t first, int64_t count, uint8_t* flags) {
    flag_halves(x + first, infinity, nan_counts, count, flags);
  });
}

at::Tensor pack_signs(const at::Tensor& self, bool nan_counts) {
  TORCH_CHECK(is_dense(self), "expected a tensor without gaps in memory");
  at::Tensor bits = empty_bytes(bytes_of_bits(self.numel()));
  auto* out = bits.mutable_data_ptr<uint8_t>();
  if (self.scalar_type() == at::kDouble) {
    pack<double>(self, nan_counts, out);
  } else if (self.scalar_type() == at::kFloat) {
    pack<float>(self, nan_counts, out);
  } else {
    TORCH_CHECK(self.element_size() == 2 && self.is_floating_point(),
                "expected a floating-point tensor");
    pack_halves(self, nan_counts, out);
  }
  return bits;
}

at::Tensor threshold_backward(const at::Tensor& gradient, const at::Tensor& bits,
                              const at::Scalar& threshold) {
  check_gradient(gradient, bits);
  TORCH_CHECK(threshold.toDouble() == 0,
              "expected threshold 0: signs cannot tell other thresholds");
  at::Tensor made = at::empty_like(gradient);
  const auto apply = [&]<class Bits>(Bits /*of the same size*/) {
    const auto* x = static_cast<const Bits*>(gradient.const_data_ptr());
    auto* out = static_cast<Bits*>(made.mutable_data_ptr());
    unpack_flags(bits.const_data_ptr<uint8_t>(), gradient.numel(),
                 [&](int64_t first, int64_t count, const uint8_t* flags) {
                   keep(x + first, flags, count, out + first);
                 });
  };
  gradient.scalar_type() == at::kDouble ? apply(uint64_t{0}) : apply(uint32_t{0});
  return made;
}

at::Tensor leaky_relu_backward(const at::Tensor& gradient, const at::Tensor& bits,
                               const at::Scalar& negative_slope, bool /*self_is_result*/) {
  check_gradient(gradient, bits);
  at::Tensor made = at::empty_like(gradient);
  const auto apply = [&]<class Number>(Number slope) {
    const Number* x = gradient.const_data_ptr<Number>();
    auto* out = made.mutable_data_ptr<Number>();
    unpack_flags(bits.const_data_ptr<uint8_t>(), gradient.numel(),
                 [&](int64_t first, int64_t count, const uint8_t* flags) {
                   scale(x + first, flags, slope, count, out + first);
                 });
  };
  gradient.scalar_type() == at::kDouble ? apply(negative_slope.to<double>())
                                        : apply(negative_slope.to<float>());
  return made;
}

TORCH_LIBRARY_FRAGMENT(fitstep, library) {
  library.def("pack_signs(Tensor self, bool nan_counts) -> Tensor");
  library.def(
      "threshold_backward_packed(Tensor grad_output, Tensor signs, Scalar threshold) -> Tensor");
  library.def(
      "leaky_relu_backward_packed(Tensor grad_output, Tensor signs, Scalar negative_slope, "
      "bool self_is_result) -> Tensor");
}

TORCH_LIBRARY_IMPL(fitstep, CPU, library) {
  library.impl("pack_signs", pack_signs);
  library.impl("threshold_backward_packed", threshold_backward);
  library.impl("leaky_relu_backward_packed", leaky_relu_backward);
}

}  // namespace
}  // namespace fitstep::torch_side

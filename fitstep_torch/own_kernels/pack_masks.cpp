// One bit per element in place of a dropout mask.
//
//   noise   0, 1.25, 1.25, 0, ...    floats of only two values
//   packed  | 0 | 1.25 | 0110...b    the two values, eight bytes each, then a bit per element
//
// Values are compared by their bits, so any two values come back unchanged. Boolean masks need no
// table: a byte is 0 or not 0.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "fitstep_torch/own_kernels/bits.h"

namespace fitstep::torch_side {
namespace {

FITSTEP_VECTORISED void flag_other(const uint16_t* x, uint16_t first, int64_t count,
                                   uint8_t* flags) {
  for (int64_t i = 0; i < count; ++i) flags[i] = x[i] != first ? 1 : 0;
}
FITSTEP_VECTORISED void flag_other(const uint32_t* x, uint32_t first, int64_t count,
                                   uint8_t* flags) {
  for (int64_t i = 0; i < count; ++i) flags[i] = x[i] != first ? 1 : 0;
}
FITSTEP_VECTORISED void flag_other(const uint64_t* x, uint64_t first, int64_t count,
                                   uint8_t* flags) {
  for (int64_t i = 0; i < count; ++i) flags[i] = x[i] != first ? 1 : 0;
}
FITSTEP_VECTORISED void flag_true(const uint8_t* x, int64_t count, uint8_t* flags) {
  for (int64_t i = 0; i < count; ++i) flags[i] = x[i] != 0 ? 1 : 0;
}

// `out` may be `x`: each element is read before it is written.
template <class Number>
inline void multiply_by(const Number* x, const uint8_t* flags, Number no, Number yes, int64_t count,
                        Number* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] * (flags[i] != 0 ? yes : no);
}
FITSTEP_VECTORISED void multiply(const float* x, const uint8_t* flags, float no, float yes,
                                 int64_t count, float* out) {
  multiply_by(x, flags, no, yes, count, out);
}
FITSTEP_VECTORISED void multiply(const double* x, const uint8_t* flags, double no, double yes,
                                 int64_t count, double* out) {
  multiply_by(x, flags, no, yes, count, out);
}

// gradient * mask (0 or 1) * scale, in this order, as in native_dropout_backward.
template <class Number>
inline void multiply_twice_by(const Number* x, const uint8_t* flags, Number factor, int64_t count,
                              Number* out) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) out[i] = x[i] * static_cast<Number>(flags[i]) * factor;
}
FITSTEP_VECTORISED void multiply_twice(const float* x, const uint8_t* flags, float factor,
                                       int64_t count, float* out) {
  multiply_twice_by(x, flags, factor, count, out);
}
FITSTEP_VECTORISED void multiply_twice(const double* x, const uint8_t* flags, double factor,
                                       int64_t count, double* out) {
  multiply_twice_by(x, flags, factor, count, out);
}

template <class Bits>
void pack(const Bits* x, int64_t elements, uint8_t* packed) {
  const Bits first = elements > 0 ? x[0] : Bits{0};
  const Bits* found = std::find_if(x, x + elements, [&](Bits one) { return one != first; });
  const Bits other = found == x + elements ? first : *found;
  std::memset(packed, 0, kTableBytes);
  std::memcpy(packed, &first, sizeof first);
  std::memcpy(packed + kTableBytes / 2, &other, sizeof other);
  pack_flags(elements, packed + kTableBytes, [&](int64_t begin, int64_t count, uint8_t* flags) {
    flag_other(x + begin, first, count, flags);
  });
}

// REQUIRES: the elements have at most two values, by their bits.
at::Tensor pack_two(const at::Tensor& self) {
  TORCH_CHECK(is_dense(self), "expected a tensor without gaps in memory");
  at::Tensor packed = empty_bytes(kTableBytes + bytes_of_bits(self.numel()));
  auto* out = packed.mutable_data_ptr<uint8_t>();
  switch (self.element_size()) {
    case sizeof(uint16_t):
      pack(static_cast<const uint16_t*>(self.const_data_ptr()), self.numel(), out);
      break;
    case sizeof(uint32_t):
      pack(static_cast<const uint32_t*>(self.const_data_ptr()), self.numel(), out);
      break;
    default:
      pack(static_cast<const uint64_t*>(self.const_data_ptr()), self.numel(), out);
  }
  return packed;
}

at::Tensor multiply_packed(const at::Tensor& self, const at::Tensor& packed) {
  TORCH_CHECK(is_dense(self), "expected a tensor without gaps in memory");
  TORCH_CHECK(packed.numel() == kTableBytes + bytes_of_bits(self.numel()),
              "these are bits of another tensor");
  at::Tensor made = at::empty_like(self);
  const auto* table = packed.const_data_ptr<uint8_t>();
  const auto apply = [&]<class Number>(Number no) {
    Number yes{0};
    std::memcpy(&no, table, sizeof no);
    std::memcpy(&yes, table + kTableBytes / 2, sizeof yes);
    const Number* x = self.const_data_ptr<Number>();
    auto* out = made.mutable_data_ptr<Number>();
    unpack_flags(table + kTableBytes, self.numel(),
                 [&](int64_t first, int64_t count, const uint8_t* flags) {
                   multiply(x + first, flags, no, yes, count, out + first);
                 });
  };
  self.scalar_type() == at::kDouble ? apply(0.0) : apply(0.0F);
  return made;
}

at::Tensor pack_bools(const at::Tensor& self) {
  TORCH_CHECK(is_dense(self), "expected a tensor without gaps in memory");
  at::Tensor bits = empty_bytes(bytes_of_bits(self.numel()));
  const auto* x = static_cast<const uint8_t*>(self.const_data_ptr());
  pack_flags(
      self.numel(), bits.mutable_data_ptr<uint8_t>(),
      [&](int64_t first, int64_t count, uint8_t* flags) { flag_true(x + first, count, flags); });
  return bits;
}

at::Tensor native_dropout_backward(const at::Tensor& gradient, const at::Tensor& bits,
                                   double factor) {
  TORCH_CHECK(is_dense(gradient), "expected a gradient without gaps in memory");
  TORCH_CHECK(bits.numel() == bytes_of_bits(gradient.numel()), "these are bits of another tensor");
  at::Tensor made = at::empty_like(gradient);
  const auto apply = [&]<class Number>(Number by) {
    const Number* x = gradient.const_data_ptr<Number>();
    auto* out = made.mutable_data_ptr<Number>();
    unpack_flags(bits.const_data_ptr<uint8_t>(), gradient.numel(),
                 [&](int64_t first, int64_t count, const uint8_t* flags) {
                   multiply_twice(x + first, flags, by, count, out + first);
                 });
  };
  gradient.scalar_type() == at::kDouble ? apply(factor) : apply(static_cast<float>(factor));
  return made;
}

TORCH_LIBRARY_FRAGMENT(fitstep, library) {
  library.def("pack_two(Tensor self) -> Tensor");
  library.def("multiply_packed(Tensor self, Tensor packed) -> Tensor");
  library.def("pack_bools(Tensor self) -> Tensor");
  library.def(
      "native_dropout_backward_packed(Tensor grad_output, Tensor mask, float scale) -> Tensor");
}

TORCH_LIBRARY_IMPL(fitstep, CPU, library) {
  library.impl("pack_two", pack_two);
  library.impl("multiply_packed", multiply_packed);
  library.impl("pack_bools", pack_bools);
  library.impl("native_dropout_backward_packed", native_dropout_backward);
}

}  // namespace
}  // namespace fitstep::torch_side

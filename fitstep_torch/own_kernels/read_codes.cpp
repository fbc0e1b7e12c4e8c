// Unpacks a code into workspace, then calls PyTorch's own kernel.
//
//   code ──> unpacked tensor, in workspace ──> aten::where, scatter, threshold_backward ...
//
// So every shape, layout and type gives PyTorch's bits, at the cost of workspace. The operators of
// pack_signs.cpp, pack_masks.cpp and pack_pool.cpp need no workspace, but serve fewer cases.
//
//   bits      bool; sign of a number     1 bit     unpacked to 0 and 1
//   two       a dropout's noise          1 bit     and a table of the two values
//   indices   int64 below a bound        1, 2 or 4 bytes; an index outside is an error
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <fmt/format.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fitstep_torch/own_kernels/bits.h"

namespace fitstep::torch_side {
namespace {

constexpr int64_t kLeastPerThread = 1 << 15;  // Elements.

enum class Kind { Bits, Two, Indices };

struct Reader {
  c10::OperatorHandle handle;  // PyTorch's.
  size_t argument = 0;         // Is a code in our call.
  Kind kind = Kind::Bits;
};

template <class Visit>
void with_index_type(int64_t bound, const Visit& visit) {
  const int64_t size_bytes = index_bytes(bound);
  if (size_bytes == 1) return visit(uint8_t{0});
  size_bytes == 2 ? visit(uint16_t{0}) : visit(uint32_t{0});
}

at::Tensor narrow_indices(const at::Tensor& self, int64_t bound) {
  TORCH_CHECK(is_dense(self), "expected a tensor without gaps in memory");
  TORCH_CHECK(bound > 0 && bound <= int64_t{1} << 32, "expected a bound from 1 to 2^32");
  at::Tensor code = empty_bytes(self.numel() * index_bytes(bound));
  const auto* from = static_cast<const int64_t*>(self.const_data_ptr());
  std::atomic<bool> is_in = true;
  with_index_type(bound, [&]<class Index>(Index) {
    auto* to = static_cast<Index*>(code.mutable_data_ptr());
    at::parallel_for(0, self.numel(), kLeastPerThread, [&](int64_t begin, int64_t end) {
      uint64_t all = 0;  // Negative indices exceed any bound.
      for (int64_t i = begin; i < end; ++i) {
        all = std::max(all, static_cast<uint64_t>(from[i]));
        to[i] = static_cast<Index>(from[i]);
      }
      if (all >= static_cast<uint64_t>(bound)) is_in = false;
    });
  });
  TORCH_CHECK_INDEX(is_in, "index out of bounds for a dimension of size ", bound);
  return code;
}

template <class Number>
void widen_bits(const uint8_t* bits, Number no, Number yes, at::Tensor& whole) {
  auto* out = static_cast<Number*>(whole.mutable_data_ptr());
  unpack_flags(bits, whole.numel(), [&](int64_t first, int64_t count, const uint8_t* flags) {
    for (int64_t i = 0; i < count; ++i) out[first + i] = flags[i] != 0 ? yes : no;
  });
}

// Numbers by their bits.
template <class Bits>
void widen_two(const uint8_t* code, at::Tensor& whole) {
  Bits no{0};
  Bits yes{0};
  std::memcpy(&no, code, sizeof no);
  std::memcpy(&yes, code + kTableBytes / 2, sizeof yes);
  widen_bits(code + kTableBytes, no, yes, whole);
}

void widen_two(const at::Tensor& code, at::Tensor& whole) {
  const auto* bytes = code.const_data_ptr<uint8_t>();
  switch (whole.element_size()) {
    case sizeof(uint16_t):
      return widen_two<uint16_t>(bytes, whole);
    case sizeof(uint32_t):
      return widen_two<uint32_t>(bytes, whole);
    default:
      return widen_two<uint64_t>(bytes, whole);
  }
}

void widen_bits(const at::Tensor& code, at::Tensor& whole) {
  const auto* bits = code.const_data_ptr<uint8_t>();
  switch (whole.scalar_type()) {
    case at::kBool:
      return widen_bits<uint8_t>(bits, 0, 1, whole);
    case at::kBFloat16:
      return widen_bits<c10::BFloat16>(bits, 0.0F, 1.0F, whole);
    case at::kHalf:
      return widen_bits<c10::Half>(bits, 0.0F, 1.0F, whole);
    case at::kDouble:
      return widen_bits<double>(bits, 0, 1, whole);
    default:
      return widen_bits<float>(bits, 0, 1, whole);
  }
}

// Clamps an invalid code to the last index.
void widen_indices(const at::Tensor& code, int64_t bound, at::Tensor& whole) {
  auto* to = static_cast<int64_t*>(whole.mutable_data_ptr());
  with_index_type(bound, [&]<class Index>(Index) {
    const auto* from = static_cast<const Index*>(code.const_data_ptr());
    at::parallel_for(0, whole.numel(), kLeastPerThread, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = std::min<int64_t>(from[i], bound - 1);
    });
  });
}

int64_t code_bytes(Kind kind, int64_t elements, int64_t bound) {
  if (kind == Kind::Indices) return elements * index_bytes(bound);
  return (kind == Kind::Two ? kTableBytes : 0) + bytes_of_bits(elements);
}

// By operator. "fitstep::where_unpacked" takes the arguments of aten::where, with a code as
// `condition`, then geometry and bound of the unpacked tensor.
const std::map<std::string, Reader>& readers() {
  static const auto& made = *[] {
    auto* const all = new std::map<std::string, Reader>;
    const auto add = [&](const char* ours, const char* name, const char* overload, size_t argument,
                         Kind kind) {
      all->emplace(ours,
                   Reader{.handle = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload),
                          .argument = argument,
                          .kind = kind});
    };
    add("fitstep::where_unpacked", "aten::where", "self", 0, Kind::Bits);
    add("fitstep::masked_fill_unpacked", "aten::masked_fill", "Scalar", 1, Kind::Bits);
    add("fitstep::threshold_backward_unpacked", "aten::threshold_backward", "", 1, Kind::Bits);
    add("fitstep::leaky_relu_backward_unpacked", "aten::leaky_relu_backward", "", 1, Kind::Bits);
    add("fitstep::native_dropout_backward_unpacked", "aten::native_dropout_backward", "", 1,
        Kind::Bits);
    add("fitstep::multiply_unpacked", "aten::mul", "Tensor", 1, Kind::Two);
    add("fitstep::scatter_unpacked", "aten::scatter", "src", 2, Kind::Indices);
    add("fitstep::scatter_unpacked_", "aten::scatter_", "src", 2, Kind::Indices);
    add("fitstep::max_pool2d_backward_unpacked", "aten::max_pool2d_with_indices_backward", "", 7,
        Kind::Indices);
    add("fitstep::max_pool3d_backward_unpacked", "aten::max_pool3d_with_indices_backward", "", 7,
        Kind::Indices);
    add("fitstep::adaptive_max_pool2d_backward_unpacked", "aten::adaptive_max_pool2d_backward", "",
        2, Kind::Indices);
    add("fitstep::adaptive_max_pool3d_backward_unpacked", "aten::adaptive_max_pool3d_backward", "",
        2, Kind::Indices);
    return all;
  }();
  return made;
}

void read_code(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Reader& reader = readers().at(op.schema().name());
  const int64_t bound = torch::jit::pop(*stack).toInt();
  const auto dtype = static_cast<c10::ScalarType>(torch::jit::pop(*stack).toInt());
  const std::vector<int64_t> strides = torch::jit::pop(*stack).toIntVector();
  const std::vector<int64_t> sizes = torch::jit::pop(*stack).toIntVector();
  const size_t first = stack->size() - reader.handle.schema().arguments().size();
  c10::IValue& argument = (*stack)[first + reader.argument];
  const at::Tensor& code = argument.toTensor();
  at::Tensor whole = at::empty_strided(sizes, strides, code.options().dtype(dtype));
  TORCH_CHECK(code.numel() == code_bytes(reader.kind, whole.numel(), bound),
              "this is a code of another tensor");
  if (reader.kind == Kind::Bits) widen_bits(code, whole);
  if (reader.kind == Kind::Two) widen_two(code, whole);
  if (reader.kind == Kind::Indices) widen_indices(code, bound, whole);
  argument = std::move(whole);
  reader.handle.callBoxed(stack);
}

TORCH_LIBRARY_FRAGMENT(fitstep, library) {
  library.def("narrow_indices(Tensor self, int bound) -> Tensor");
  const auto reader = [&](const std::string& arguments, const std::string& result) {
    const std::string whole = ", int[] sizes, int[] strides, ScalarType dtype, int bound) -> ";
    library.def((arguments + whole + result).c_str());
  };
  reader("where_unpacked(Tensor condition, Tensor self, Tensor other", "Tensor");
  reader("masked_fill_unpacked(Tensor self, Tensor mask, Scalar value", "Tensor");
  reader("threshold_backward_unpacked(Tensor grad_output, Tensor self, Scalar threshold", "Tensor");
  reader(
      "leaky_relu_backward_unpacked(Tensor grad_output, Tensor self, Scalar negative_slope, "
      "bool self_is_result",
      "Tensor");
  reader("native_dropout_backward_unpacked(Tensor grad_output, Tensor mask, float scale", "Tensor");
  reader("multiply_unpacked(Tensor self, Tensor other", "Tensor");
  reader("scatter_unpacked(Tensor self, int dim, Tensor index, Tensor src", "Tensor");
  reader("scatter_unpacked_(Tensor(a!) self, int dim, Tensor index, Tensor src", "Tensor(a!)");
  for (const int side : {2, 3}) {
    const std::string list = fmt::format("int[{}]", side);
    reader(fmt::format("max_pool{0}d_backward_unpacked(Tensor grad_output, Tensor self, "
                       "{1} kernel_size, {1} stride, {1} padding, {1} dilation, bool ceil_mode, "
                       "Tensor indices",
                       side, list),
           "Tensor");
    reader(fmt::format("adaptive_max_pool{}d_backward_unpacked(Tensor grad_output, Tensor self, "
                       "Tensor indices",
                       side),
           "Tensor");
  }
}

TORCH_LIBRARY_IMPL(fitstep, CPU, library) {
  library.impl("narrow_indices", narrow_indices);
  for (const auto& [name, reader] : readers()) {
    library.impl(name.substr(name.find("::") + 2).c_str(),
                 torch::CppFunction::makeFromBoxedFunction<&read_code>());
  }
}

}  // namespace
}  // namespace fitstep::torch_side

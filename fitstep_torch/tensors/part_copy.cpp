#include "fitstep_torch/tensors/part_copy.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "fitstep/base/check.h"
#include "fitstep_torch/tensors/stack_tensors.h"
#include "fitstep_torch/tensors/tensors.h"

namespace fitstep::torch_side {
namespace {

constexpr int64_t kMostAllocatedBytes = int64_t{1} << 20;  // Larger copies are mapped.
constexpr int64_t kMostByOneThread = int64_t{1} << 16;

struct Mapped {
  void* begin;
  size_t size_bytes;
};

void unmap(void* of) {
  const auto* mapped = static_cast<Mapped*>(of);
  munmap(mapped->begin, mapped->size_bytes);
  delete mapped;
}

// Address space that gets memory page by page, when written.
at::Tensor mapped_bytes(int64_t size_bytes) {
  const auto size = static_cast<size_t>(size_bytes);
  void* begin = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  FITSTEP_CHECK(begin != MAP_FAILED, "no address space for a copy of a storage");
  madvise(begin, size, MADV_NOHUGEPAGE);
  c10::DataPtr data(begin, new Mapped{begin, size}, &unmap, c10::DeviceType::CPU);
  const c10::Storage storage(c10::Storage::use_byte_size_t(), size, std::move(data));
  return tensor_over(storage, {.sizes = {size_bytes}, .strides = {1}, .dtype = at::kByte});
}

const char* data_of(const at::Tensor& bytes) {
  return static_cast<const char*>(bytes.storage().data());
}

void copy(const at::Tensor& into, const at::Tensor& of, int64_t from, int64_t to) {
  if (of.is_cpu() && to - from <= kMostByOneThread) {
    auto* const begin = static_cast<char*>(into.storage().mutable_data());
    std::memcpy(begin + from, data_of(of) + from, static_cast<size_t>(to - from));
  } else {
    const BelowAutograd no_autograd;
    into.slice(0, from, to).copy_(of.slice(0, from, to));
  }
}

}  // namespace

PartCopy::PartCopy(const at::Tensor& of)
    : original_(bytes_over(of.unsafeGetTensorImpl()->unsafe_storage())) {
  const BelowAutograd no_autograd;
  const int64_t size_bytes = original_.numel();
  const bool is_small = !of.is_cpu() || size_bytes <= kMostAllocatedBytes;
  copy_ = is_small ? at::empty_like(original_) : mapped_bytes(size_bytes);
}

void PartCopy::each_there(int64_t from, int64_t to,
                          const std::function<void(int64_t, int64_t)>& act) const {
  auto at = there_.upper_bound(from);
  if (at != there_.begin()) --at;
  for (; at != there_.end() && at->first < to; ++at) {
    const int64_t begin = std::max(from, at->first);
    const int64_t end = std::min(to, at->second);
    if (begin < end) act(begin, end);
  }
}

void PartCopy::add(const at::Tensor& tensor) { take(first_byte(tensor), behind_last_byte(tensor)); }

void PartCopy::add_all() { take(0, original_.numel()); }

void PartCopy::take(int64_t from, int64_t to) {
  if (from >= to) return;
  int64_t next = from;
  each_there(from, to, [&](int64_t begin, int64_t end) {
    if (next < begin) copy(copy_, original_, next, begin);
    next = end;
  });
  if (next < to) copy(copy_, original_, next, to);
  // Joins the new range with the ranges that it touches.
  auto at = there_.upper_bound(from);
  if (at != there_.begin() && std::prev(at)->second >= from) --at;
  while (at != there_.end() && at->first <= to) {
    from = std::min(from, at->first);
    to = std::max(to, at->second);
    at = there_.erase(at);
  }
  there_.emplace(from, to);
}

void PartCopy::renew(const at::Tensor& tensor) {
  add(tensor);
  const int64_t to = behind_last_byte(tensor);
  if (first_byte(tensor) < to) copy(copy_, original_, first_byte(tensor), to);
}

bool PartCopy::is_as(const at::Tensor& tensor) const {
  bool is_equal = true;
  each_there(first_byte(tensor), behind_last_byte(tensor), [&](int64_t begin, int64_t end) {
    is_equal = is_equal && std::memcmp(data_of(copy_) + begin, data_of(original_) + begin,
                                       static_cast<size_t>(end - begin)) == 0;
  });
  return is_equal;
}

int64_t PartCopy::size_bytes() const {
  const int64_t page = copy_.numel() > kMostAllocatedBytes ? kPageBytes : 1;
  int64_t bytes = 0;
  for (const auto& [begin, end] : there_)
    bytes += (end + page - 1) / page * page - begin / page * page;
  return bytes;
}

at::Tensor PartCopy::at(const at::Tensor& tensor) const {
  return tensor_over(copy_.storage(), geometry_in(tensor));
}

PartCopy PartCopy::again(const at::Tensor& of) const {
  PartCopy made(of);
  for (const auto& [begin, end] : there_) made.take(begin, end);
  return made;
}

void PartCopy::put_into(const at::Tensor& other) const {
  const at::Tensor bytes = bytes_over(other.storage());
  for (const auto& [begin, end] : there_) copy(bytes, copy_, begin, end);
}

bool PartCopy::is_in(const at::Tensor& other) const {
  const at::Tensor bytes = bytes_over(other.storage());
  const BelowAutograd no_autograd;
  return std::ranges::all_of(there_, [&](const auto& part) {
    const auto& [begin, end] = part;
    if (!bytes.is_cpu()) return at::equal(bytes.slice(0, begin, end), copy_.slice(0, begin, end));
    return std::memcmp(data_of(bytes) + begin, data_of(copy_) + begin,
                       static_cast<size_t>(end - begin)) == 0;
  });
}

void Refilled::begin_segment() {
  std::erase_if(of_, [](const auto& one) { return one.second.expired(); });
}

bool Refilled::is_new(const at::Tensor& tensor, const PartCopy& held) {
  if (of_.contains(storage_of(tensor))) return true;
  if (held.is_as(tensor)) return false;
  of_.emplace(storage_of(tensor), tensor.storage().getWeakStorageImpl());
  return true;
}

}  // namespace fitstep::torch_side

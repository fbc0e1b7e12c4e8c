#include "fitstep_cuda/link_copies.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/plan/plan.h"
#include "fitstep/run/device.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/cuda_device.h"
#include "fitstep_cuda/zero_value_copies.h"
#include "fitstep_cuda/zero_value_elements.h"

namespace fitstep::cuda {

LinkCopies::LinkCopies(CudaDevice& device, const LaneCopies& copies)
    : device_(device), copies_(copies), is_pageable_(!device.why_pageable().empty()) {
  for (const LaneCopy& copy : evicts()) {
    first_piece_.push_back(static_cast<size_t>(pieces_));
    sizes_.push_back({.size_bytes = copy.size_bytes});
    pieces_ += coded_pieces_of(copy.size_bytes);
    has_codes_ = has_codes_ || copy.code != Code::None;
    if (copy.residency_below < 0) continue;
    const auto residency = static_cast<size_t>(copy.residency_below);
    evict_of_.resize(std::max(evict_of_.size(), residency + 1));
    evict_of_[residency] = first_piece_.size() - 1;
  }
}

LinkCopies::~LinkCopies() {
  if (on_gpu_ != nullptr) device_.calls().free(reinterpret_cast<char*>(on_gpu_));
  if (on_host_ != nullptr) device_.calls().free_pinned(reinterpret_cast<char*>(on_host_));
}

Status LinkCopies::prepare() {
  if (!has_codes_) return Done{};
  return prepare_sizes();
}

// Pieces of unknown size count as plain.
Status LinkCopies::prepare_sizes() {
  if (on_gpu_ != nullptr || pieces_ == 0) return Done{};
  FITSTEP_TRY_STATUS(device_.prepare_code_scratch());
  const int64_t size_bytes = pieces_ * static_cast<int64_t>(sizeof(int64_t));
  Calls& calls = device_.calls();
  if (on_host_ == nullptr) {
    FITSTEP_TRY(char* const on_host, calls.allocate_pinned(size_bytes));
    on_host_ = reinterpret_cast<int64_t*>(on_host);
  }
  std::fill_n(on_host_, pieces_, -1);
  FITSTEP_TRY(char* const on_gpu, calls.allocate(size_bytes));
  const Stream stream = device_.stream(Lane::Evict);
  Status filled = calls.copy(on_gpu, reinterpret_cast<const char*>(on_host_), size_bytes, stream);
  if (filled) filled = calls.synchronize(stream);
  if (filled) {
    on_gpu_ = reinterpret_cast<int64_t*>(on_gpu);
  } else {
    calls.free(on_gpu);
  }
  return filled;
}

Status LinkCopies::put(const LaneCopy& copy, size_t evict, Coding coding, Lane lane) {
  const Stream stream = device_.stream(lane);
  Calls& calls = device_.calls();
  const size_t first = first_piece_[evict];
  FITSTEP_TRY_STATUS(calls.code({.source = copy.source,
                                 .target = copy.target,
                                 .size_bytes = copy.size_bytes,
                                 .sizes = on_gpu_ + first,
                                 .scratch = device_.code_scratch(lane)},
                                coding, stream));
  if (coding == Coding::Decode) return Done{};
  return calls.copy(
      reinterpret_cast<char*>(on_host_ + first), reinterpret_cast<const char*>(on_gpu_ + first),
      coded_pieces_of(copy.size_bytes) * static_cast<int64_t>(sizeof(int64_t)), stream);
}

Status LinkCopies::evict(int32_t position) {
  const auto evict = static_cast<size_t>(position);
  const LaneCopy& copy = evicts()[evict];
  if (copy.size_bytes == 0) return Done{};
  if (copy.code != Code::None) return put(copy, evict, Coding::Encode, Lane::Evict);
  if (is_sampling_ && copy.residency_below >= 0) {
    FITSTEP_TRY_STATUS(put(copy, evict, Coding::Count, Lane::Evict));
  }
  device_.count(Lane::Evict, copy.size_bytes);
  const Stream stream = device_.stream(Lane::Evict);
  FITSTEP_TRY_STATUS(device_.calls().copy(copy.target, copy.source, copy.size_bytes, stream));
  // Copies from pageable memory may read it before the stream reaches the copy.
  return is_pageable_ ? device_.calls().synchronize(stream) : Status(Done{});
}

Status LinkCopies::prefetch(int32_t position) {
  const LaneCopy& copy = copies_.of(Lane::Prefetch)[static_cast<size_t>(position)];
  if (copy.size_bytes == 0) return Done{};
  if (copy.code != Code::None) {
    const size_t evict = evict_of_[static_cast<size_t>(copy.residency_below)];
    return put(copy, evict, Coding::Decode, Lane::Prefetch);
  }
  device_.count(Lane::Prefetch, copy.size_bytes);
  return device_.calls().copy(copy.target, copy.source, copy.size_bytes,
                              device_.stream(Lane::Prefetch));
}

void LinkCopies::begin_samples() { is_sampling_ = !is_pageable_ && prepare_sizes().has_value(); }

int64_t LinkCopies::coded_bytes(size_t evict) const {
  int64_t sum_bytes = 0;
  int64_t rest_bytes = sizes_[evict].size_bytes;
  for (size_t piece = first_piece_[evict]; rest_bytes > 0; ++piece) {
    const int64_t plain_bytes = std::min(rest_bytes, kCodedPieceBytes);
    sum_bytes += on_host_[piece] < 0 ? plain_bytes : on_host_[piece];
    rest_bytes -= plain_bytes;
  }
  return sum_bytes;
}

void LinkCopies::end_step() {
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const bool is_coded = evicts()[i].code != Code::None;
    sizes_[i].written_bytes = is_coded ? coded_bytes(i) : sizes_[i].size_bytes;
    if (is_coded) device_.count(Lane::Evict, sizes_[i].written_bytes);
    if (is_sampling_ && evicts()[i].residency_below >= 0 && sizes_[i].size_bytes > 0) {
      sizes_[i].zero_value_bytes = coded_bytes(i);
    }
  }
  for (const LaneCopy& copy : copies_.of(Lane::Prefetch)) {
    if (copy.code == Code::None) continue;
    device_.count(Lane::Prefetch,
                  sizes_[evict_of_[static_cast<size_t>(copy.residency_below)]].written_bytes);
  }
  is_sampling_ = false;
}

}  // namespace fitstep::cuda

// The copies of one plan between the GPU and the host: plain or in zero-value code.
//
//   evict      kernels read the storage and write its code into page-locked memory, so the link
//              carries the code
//   prefetch   kernels read the code there
//
// The sizes of the pieces stay on the GPU, for the prefetch. A copy of the sizes goes to the host,
// which reports it between steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/run/device.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/cuda_device.h"

namespace fitstep::cuda {

class LinkCopies {
 public:
  // REQUIRES: device and copies outlive this.
  LinkCopies(CudaDevice& device, const LaneCopies& copies);
  ~LinkCopies();
  LinkCopies(const LinkCopies&) = delete;
  LinkCopies& operator=(const LinkCopies&) = delete;

  // Allocates memory if any copy is in the code.
  Status prepare();

  // Queue a copy of Evict or Prefetch in its lane's stream, in the code or plain.
  Status evict(int32_t position);
  Status prefetch(int32_t position);

  // Between steps: lets the next step estimate the size of all its copies in the code, if there is
  // memory for it.
  void begin_samples();

  // Call after a step whose copies succeeded. Counts the bytes of coded copies; in a graph, those
  // of the last step before it.
  void end_step();

  // Call after a step whose copies failed.
  void forget_step() { is_sampling_ = false; }

  // Between steps; by position on Evict.
  std::vector<CopySize> sizes() const { return sizes_; }

 private:
  const std::vector<LaneCopy>& evicts() const { return copies_.of(Lane::Evict); }
  Status prepare_sizes();
  Status put(const LaneCopy& copy, size_t evict, Coding coding, Lane lane);
  int64_t coded_bytes(size_t evict) const;

  CudaDevice& device_;
  const LaneCopies& copies_;
  bool is_pageable_;                 // The host tier is pageable.
  std::vector<size_t> first_piece_;  // By position on Evict, in `on_gpu_` and `on_host_`.
  std::vector<size_t> evict_of_;     // By residency on the host: position on Evict.
  int64_t pieces_ = 0;               // Of all copies.
  bool has_codes_ = false;
  bool is_sampling_ = false;
  int64_t* on_gpu_ = nullptr;
  int64_t* on_host_ = nullptr;
  std::vector<CopySize> sizes_;
};

}  // namespace fitstep::cuda

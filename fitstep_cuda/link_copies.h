// The copies of one plan between the GPU and the host: as they are, or in zero-value code.
//
//   evict      kernels read the storage and write its code into page-locked memory: what crosses
//   the
//              link is the code
//   prefetch   kernels read it there
//
// How large each piece has become stays on the GPU, for who reads it back; a copy of that goes to
// the host, to be told between steps.
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
  // REQUIRES: device and copies outlive it.
  LinkCopies(CudaDevice& device, const LaneCopies& copies);
  ~LinkCopies();
  LinkCopies(const LinkCopies&) = delete;
  LinkCopies& operator=(const LinkCopies&) = delete;

  // Takes the memory that it needs, if any copy is in the code.
  Status prepare();

  // Put a copy on Evict or Prefetch into its lane's stream, in the code or as it is.
  Status evict(int32_t position);
  Status prefetch(int32_t position);

  // Between steps: has the next one find out what the code would make of all. Where there is no
  // memory for that it does not.
  void begin_samples();

  // Once a step's copies have ended well. Counts what those in the code have copied; in a graph,
  // what they copied in the last step before it.
  void end_step();

  // Once they have not.
  void forget_step() { is_sampling_ = false; }

  // Between steps, by position on Evict.
  std::vector<CopySize> sizes() const { return sizes_; }

 private:
  const std::vector<LaneCopy>& evicts() const { return copies_.of(Lane::Evict); }
  Status prepare_sizes();
  Status put(const LaneCopy& copy, size_t evict, Coding coding, Lane lane);
  int64_t coded_bytes(size_t evict) const;

  CudaDevice& device_;
  const LaneCopies& copies_;
  bool is_pageable_;                 // The host tier.
  std::vector<size_t> first_piece_;  // By position on Evict, in `on_gpu_` and `on_host_`.
  std::vector<size_t> evict_of_;     // By residency below, the position on Evict.
  int64_t pieces_ = 0;               // Of all.
  bool has_codes_ = false;
  bool is_sampling_ = false;
  int64_t* on_gpu_ = nullptr;
  int64_t* on_host_ = nullptr;
  std::vector<CopySize> sizes_;
};

}  // namespace fitstep::cuda

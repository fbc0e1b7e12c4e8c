// Memory that operators make which run at once (on small known tensors), outside the arena.
//
//   positions = arange(64)          512 bytes     an external of the segment, counted there
//   distance = positions - ...    32768 bytes     freed before the segment ends, counted here
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace fitstep::torch_side {

class AtOnce {
 public:
  void begin();  // Of a step's call.
  void note(const at::Tensor& made);
  // Most bytes held at once since the last take_peak(), without those of tensors in `counted`.
  int64_t take_peak(const std::vector<at::Tensor>& counted);

 private:
  void sweep();

  struct Made {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    int64_t bytes = 0;
  };
  std::unordered_map<const c10::StorageImpl*, Made> made_;
  int64_t held_bytes_ = 0;  // Includes tensors freed since the last sweep.
  int64_t new_bytes_ = 0;   // Made since the last sweep.
  size_t new_ = 0;          // Number of tensors made since then.
  int64_t peak_bytes_ = 0;
};

}  // namespace fitstep::torch_side

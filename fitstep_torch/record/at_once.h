// Memory of what operators that run at once make: small known numbers, beside the arena.
//
//   positions = arange(64)         512            it is an external of the segment, and counted
//   there distance = positions - ...     512 + 32768    gone before the segment ends: counted here
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
  void begin();  // A call.
  void note(const at::Tensor& made);
  // The most that was held at a time since the last call, beyond what is among `counted`.
  int64_t take_peak(const std::vector<at::Tensor>& counted);

 private:
  void sweep();

  struct Made {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    int64_t bytes = 0;
  };
  std::unordered_map<const c10::StorageImpl*, Made> made_;
  int64_t held_bytes_ = 0;  // With those that are gone since the last sweep.
  int64_t new_bytes_ = 0;   // Of those made since then.
  size_t new_ = 0;          // How many these are.
  int64_t peak_bytes_ = 0;
};

}  // namespace fitstep::torch_side

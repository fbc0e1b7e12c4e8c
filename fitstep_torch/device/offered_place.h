// For measuring a call in place: offers the address of an input as the address of the result.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/run/answers.h"
#include "fitstep_torch/device/torch_device.h"

namespace fitstep::torch_side {

// The one memory request of the call is answered with the address of an input. While an object of
// this class exists, releasing that address frees nothing.
class OfferedPlace {
 public:
  explicit OfferedPlace(TorchDevice& device) : device_(device) {}
  ~OfferedPlace() {
    if (is_registered_) device_.unregister_arena(expected_[0].address);
  }
  OfferedPlace(const OfferedPlace&) = delete;
  OfferedPlace& operator=(const OfferedPlace&) = delete;

  // Bytes inside `room` belong to a registered arena already.
  Status offer(std::span<char> bytes, std::span<char> room) {
    const auto size_bytes = static_cast<int64_t>(bytes.size());
    const bool is_in_room = bytes.data() >= room.data() && bytes.data() < room.data() + room.size();
    if (!is_in_room) FITSTEP_TRY_STATUS(device_.register_arena(bytes.data(), size_bytes));
    is_registered_ = !is_in_room;
    expected_.push_back({.size_bytes = size_bytes,
                         .address = bytes.data(),
                         .is_argument = true,
                         .after_release_of = {}});
    return Done{};
  }

  void begin() const {
    if (expected_.empty()) return;
    Answers& answers = device_.answers();
    answers.set_reserve(nullptr, 0);  // An earlier arena may be gone; a step sets its own.
    answers.begin_op(expected_);
  }
  void end() const {
    if (!expected_.empty()) device_.answers().end_op();
  }
  TorchDevice& device() const { return device_; }

  bool is_offered() const { return !expected_.empty(); }
  bool is_taken_by(const at::Tensor& result) const {
    return result.defined() && result.storage().data() == expected_[0].address;
  }

 private:
  TorchDevice& device_;
  std::vector<Expected> expected_;
  bool is_registered_ = false;
};

}  // namespace fitstep::torch_side

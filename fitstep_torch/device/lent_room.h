// Memory for trial runs: this thread's requests are answered from `room`, a free part of an arena.
#pragma once

#include <cstdint>
#include <span>

#include "fitstep_torch/device/torch_device.h"

namespace fitstep::torch_side {

// Requests come from the room until take_back() or the destructor, also if the trial throws.
class LentRoom {
 public:
  LentRoom(TorchDevice& device, std::span<char> room) : answers_(device.answers()) {
    answers_.lend(room.data(), static_cast<int64_t>(room.size()));
  }
  ~LentRoom() {
    if (is_lent_) answers_.take_back();
  }
  LentRoom(const LentRoom&) = delete;
  LentRoom& operator=(const LentRoom&) = delete;

  // Returns how many bytes of the room are still in use.
  int64_t take_back() {
    is_lent_ = false;
    return answers_.take_back();
  }

 private:
  Answers& answers_;
  bool is_lent_ = true;
};

}  // namespace fitstep::torch_side

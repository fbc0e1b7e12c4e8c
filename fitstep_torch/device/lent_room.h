// Memory for what is tried: what this thread requests comes out of a room for a while.
#pragma once

#include <cstdint>
#include <span>

#include "fitstep_torch/device/torch_device.h"

namespace fitstep::torch_side {

// Until the room is taken back, or this goes. Whatever is thrown, nobody else's memory is there.
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

  // Returns how many of its bytes are in use.
  int64_t take_back() {
    is_lent_ = false;
    return answers_.take_back();
  }

 private:
  Answers& answers_;
  bool is_lent_ = true;
};

}  // namespace fitstep::torch_side

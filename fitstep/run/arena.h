// An arena is one reservation on a device; a plan's offsets become addresses in it. In a forked
// child these addresses are other memory, so there the arena releases and changes nothing.
//
//   base                        capacity
//   | homes | residencies, scratch  |     address() refuses what lies outside
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "fitstep/base/result.h"
#include "fitstep/run/device.h"

namespace fitstep {

class Arena {
 public:
  // Reserves `size_bytes` of a tier of `device`.
  static Result<std::unique_ptr<Arena>> make(std::shared_ptr<Device> device, int64_t size_bytes,
                                             TierId tier = kDeviceTier);

  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  char* base() const { return base_; }
  int64_t size_bytes() const { return size_bytes_; }

  // The address of [offset, offset + size). Error: it is not inside the arena.
  Result<char*> address(int64_t offset_bytes, int64_t size_bytes) const;

  // Gives bytes back to the device; their addresses stay reserved.
  // REQUIRES: the range lies inside the arena.
  void discard(char* begin, int64_t size_bytes) {
    if (is_ours()) device_->discard(begin, size_bytes);
  }

  // Processes forked from now on get a copy of the arena.
  void enter_forks() {
    if (is_ours()) device_->set_in_forks(base_, size_bytes_, true);
  }

 private:
  Arena(std::shared_ptr<Device> device, char* base, int64_t size_bytes)
      : device_(std::move(device)), base_(base), size_bytes_(size_bytes), process_(getpid()) {}

  bool is_ours() const { return getpid() == process_; }

  std::shared_ptr<Device> device_;
  char* base_;
  int64_t size_bytes_;
  pid_t process_;
};

}  // namespace fitstep

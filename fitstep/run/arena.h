// An arena is one reservation on a device; a plan's offsets become addresses in it. In a process
// that was forked from the one that made it the same addresses are other memory: there nothing of
// it is given back or changed.
//
//   base                        capacity
//   | homes | residencies, scratch  |     every offset + size lies in here, or is refused
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

  // The address of [offset, offset + size), which must lie inside the arena.
  Result<char*> address(int64_t offset_bytes, int64_t size_bytes) const;

  // Gives bytes inside the arena back to the device; their addresses stay reserved.
  void discard(char* begin, int64_t size_bytes) {
    if (is_ours()) device_->discard(begin, size_bytes);
  }

  // Lets processes that are forked from now on have a copy of it.
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

// A device as PyTorch and plans both see it: its tensors, the answers to its kernels' memory
// requests, and the copies to and from it.
//
//   PyTorch's side      the device of tensors, its allocator, its kernels' requests
//   the plans' side     arenas, copy lanes, a file: a TieredDevice for each session
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/run/answers.h"
#include "fitstep/run/disk_file.h"
#include "fitstep/run/tiered_device.h"

namespace fitstep::torch_side {

// While it exists, memory requests of the thread that made it are answered from the plan.
class Serving {
 public:
  Serving() = default;
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  virtual ~Serving() = default;
};

class TorchDevice {
 public:
  TorchDevice() = default;
  TorchDevice(const TorchDevice&) = delete;
  TorchDevice& operator=(const TorchDevice&) = delete;
  virtual ~TorchDevice() = default;

  virtual c10::Device device() const = 0;
  bool is_cpu() const { return device().is_cpu(); }

  // Alignment of the addresses that PyTorch gives tensors there (Program::alignment_bytes).
  virtual int64_t alignment_bytes() const = 0;

  // Most bytes that one arena can have.
  virtual int64_t memory_bytes() const = 0;

  // Bytes that count in a budget besides tensors and arenas: all else in the GPU's memory, such as
  // kernel code. 0 on the CPU, where a budget is for tensors only.
  virtual int64_t outside_bytes() const = 0;

  // Opens arenas, copy lanes and a file for a session, and installs the allocator.
  virtual Result<std::shared_ptr<TieredDevice>> open(std::optional<DiskFileOptions> disk) = 0;

  // Measures copies to the host tier and back, in blocks of this size, while kernels run.
  virtual Result<Link> measure_link(int32_t threads, int64_t block_bytes) = 0;

  // Whether this much host memory can be page-locked (pinned) now. Copies to the host tier are
  // measured with pinned memory. True if pinning makes no difference.
  virtual bool can_lock(int64_t /*size_bytes*/) const { return true; }

  // Measures codecs that the device runs for copies to the host tier; none if the CPU runs them.
  virtual Result<std::vector<Codec>> measure_codecs() { return std::vector<Codec>(); }

  // The allocator for tensors that no plan places.
  virtual c10::Allocator* allocator() const = 0;

  // Tells the allocator that these addresses belong to an arena: releasing them frees nothing.
  virtual Status register_arena(const char* base, int64_t size_bytes) = 0;
  virtual void unregister_arena(const char* base) = 0;

  // answers() has the planned addresses for the calling thread's requests. serve() starts to answer
  // the requests of this thread and of its kernels' worker threads; null if serving never ends.
  virtual Answers& answers() = 0;
  virtual std::unique_ptr<Serving> serve() = 0;

  // Backs the bytes of an arena with memory. Bytes that are backed already stay.
  virtual Status touch(char* begin, int64_t size_bytes, int32_t threads) = 0;

  // Copies between device and host memory, in any direction. Returns when the copy and all earlier
  // work of the device are done. Throws PyTorch's errors.
  virtual void copy(void* target, const void* source, int64_t size_bytes) = 0;

  // Fills device memory with repeats of a pattern in host memory. Throws PyTorch's errors.
  virtual void fill(char* target, int64_t size_bytes, std::span<const char> pattern) = 0;

  // Whether a convolution whose workspace is refused picks an algorithm with a smaller workspace,
  // and keeps this choice for later calls of the thread (cuDNN).
  virtual bool finds_less_scratch() const { return false; }

  // Called before an output becomes the caller's, because the caller may use it on another stream.
  virtual void hand_out(const c10::DataPtr& memory) = 0;

  // Hash of bytes in device memory. Throws PyTorch's errors.
  virtual uint64_t hash(const void* bytes, int64_t size_bytes) = 0;

  // Waits until the device has done all its work. Throws PyTorch's errors.
  virtual void synchronize() = 0;
};

// Where the profile runs calls: `room` is a part of an arena that nothing else uses meanwhile (may
// be empty), `devices` the device of each storage.
struct Workplace {
  TorchDevice& device;
  std::span<char> room;
  std::span<const c10::Device> devices;
};

// The CPU, which is always there.
const std::shared_ptr<TorchDevice>& cpu_device();

}  // namespace fitstep::torch_side

// A device as PyTorch and plans see it together: whose tensors they are, who answers its kernels'
// requests, and how bytes get there.
//
//   PyTorch's side      tensors' device, its allocator, its kernels' requests
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

// While it lives, requests of the thread that made it are answered from the plan.
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

  // Of addresses that PyTorch gives tensors there (Program::alignment_bytes).
  virtual int64_t alignment_bytes() const = 0;

  // What one arena can have at most.
  virtual int64_t memory_bytes() const = 0;

  // What counts in a budget beside tensors and arenas: all else that the GPU holds, such as the
  // kernels' code. 0 on the CPU, where a budget is for tensors alone.
  virtual int64_t outside_bytes() const = 0;

  // Arenas, lanes and a file for a session; the allocator is in place from then on.
  virtual Result<std::shared_ptr<TieredDevice>> open(std::optional<DiskFileOptions> disk) = 0;

  // Copies to the host tier and back, in blocks of that size, beside kernels.
  virtual Result<Link> measure_link(int32_t threads, int64_t block_bytes) = 0;

  // Whether so much memory of the host can be page-locked now, as copies to the host tier are
  // measured with; true where that makes no difference.
  virtual bool can_lock(int64_t /*size_bytes*/) const { return true; }

  // What the device itself codes of copies to the host tier; nothing where the processor does.
  virtual Result<std::vector<Codec>> measure_codecs() { return std::vector<Codec>(); }

  // Of what no plan places.
  virtual c10::Allocator* allocator() const = 0;

  // Tells the allocator that these addresses are an arena's, so that releasing them frees nothing.
  virtual Status register_arena(const char* base, int64_t size_bytes) = 0;
  virtual void unregister_arena(const char* base) = 0;

  // What the calling thread's requests are answered from, while they are served; and serves them,
  // and those of its kernels' worker threads. May return null where that has no end.
  virtual Answers& answers() = 0;
  virtual std::unique_ptr<Serving> serve() = 0;

  // Has the arena's bytes backed by memory, as far as they are not.
  virtual Status touch(char* begin, int64_t size_bytes, int32_t threads) = 0;

  // Between memory of the device and of the host, in any direction; returns when it is done, and
  // when all is done that was there to do before. Throws as PyTorch does.
  virtual void copy(void* target, const void* source, int64_t size_bytes) = 0;

  // Repeats the pattern, which is the host's, in memory of the device. Throws as PyTorch does.
  virtual void fill(char* target, int64_t size_bytes, std::span<const char> pattern) = 0;

  // Whether a convolution that is refused its scratch finds a way with less, and keeps to it for
  // all further calls of the thread.
  virtual bool finds_less_scratch() const { return false; }

  // An output of a step is about to be the caller's, who may use it on another stream.
  virtual void hand_out(const c10::DataPtr& memory) = 0;

  // Of bytes of the device: equal ones have equal hashes. Throws as PyTorch does.
  virtual uint64_t hash(const void* bytes, int64_t size_bytes) = 0;

  // Returns when everything that was given to the device has been done. Throws as PyTorch does.
  virtual void synchronize() = 0;
};

// Where calls are run alone: in a part of an arena of the device's that nothing else uses meanwhile
// (may be empty), on tensors of these devices, by storage.
struct Workplace {
  TorchDevice& device;
  std::span<char> room;
  std::span<const c10::Device> devices;
};

// The one that is always there.
const std::shared_ptr<TorchDevice>& cpu_device();

}  // namespace fitstep::torch_side

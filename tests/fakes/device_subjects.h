// The devices that the contract suite tests, each with stand-ins for ops.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fitstep/run/device.h"
#include "fitstep_cuda/cuda.h"

namespace fitstep {

// A device with stand-ins for ops, which run in the order of its compute lane.
class Subject {
 public:
  explicit Subject(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
  virtual ~Subject() = default;

  Device& device() { return *device_; }
  const std::shared_ptr<Device>& shared() { return device_; }

  virtual void fill(char* begin, int64_t size_bytes, char byte);
  // Sleeps until the op has run.
  virtual int64_t count(const char* begin, int64_t size_bytes, char byte);

 private:
  std::shared_ptr<Device> device_;
};

struct DeviceKind {
  std::string name;
  std::string device_name;
  std::function<std::unique_ptr<Subject>()> make;
};

// The CPU, the mock, CUDA lanes on fake streams, and CUDA lanes on a GPU if there is one.
std::vector<DeviceKind> devices();

// These, and a file, which is memory only: reserved once, and without lanes.
std::vector<DeviceKind> memories();

struct CallsKind {
  std::string name;
  std::function<std::shared_ptr<cuda::Calls>()> open;
};

// A fake of the CUDA runtime, and the real one if there is a GPU.
std::vector<CallsKind> cuda_calls();

}  // namespace fitstep

// The devices that the contract is about, each with what stands for ops on it.
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

// A device, and what stands for ops on it: they work in the order of its compute lane.
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

// The CPU, the mock, CUDA's lanes on streams of a fake, and on the GPU where there is one.
std::vector<DeviceKind> devices();

struct CallsKind {
  std::string name;
  std::function<std::shared_ptr<cuda::Calls>()> open;
};

// A fake of the CUDA runtime's calls, and the GPU's own where there is one.
std::vector<CallsKind> cuda_calls();

}  // namespace fitstep

// What autograd asks of a GPU, for builds of PyTorch that know none: one device whose streams and
// events do nothing. With it fakes of GPU tensors have gradients, so that steps for a GPU can be
// captured where there is none. No kernel can run without stand_in_torch_tool.cpp.
//
// To be loaded before PyTorch is, which asks for its GPU side once: LD_PRELOAD=.../gpu_stand_in.so
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <memory>
#include <string>

namespace {

class Guard final : public c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
 public:
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Device getDevice() const override { return {c10::DeviceType::CUDA, 0}; }
  c10::Device exchangeDevice(c10::Device) const override { return getDevice(); }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    static char any;
    *event = &any;
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
};

class Hooks final : public at::CUDAHooksInterface {
 public:
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  int getNumGPUs() const override { return 1; }
  std::string showConfig() const override { return "no GPU, a stand-in\n"; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
};

const bool is_there = [] {
  static Guard guard;
  at::CUDAHooksRegistry()->Register(
      "CUDAHooks", [](at::CUDAHooksArgs) -> std::unique_ptr<at::CUDAHooksInterface> {
        return std::make_unique<Hooks>();
      });
  c10::impl::device_guard_impl_registry[static_cast<size_t>(c10::DeviceType::CUDA)] = &guard;
  return true;
}();

}  // namespace

#include <cstdint>
#include <string>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/run/answers.h"
#include "fitstep/run/free_memory.h"
#include "fitstep/run/measure/measure_codecs.h"
#include "fitstep_torch/bind/bindings.h"
#include "fitstep_torch/device.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

// Counters of the calling thread's memory requests.
py::dict counters(TorchDevice& device) {
  const AllocatorCounters& of = device.answers().counters();
  py::dict made;
  made["planned"] = of.planned;
  made["unforeseen"] = of.unforeseen;
  made["unforeseen_bytes"] = of.unforeseen_bytes;
  made["violations"] = of.violations;
  made["violation_bytes"] = of.violation_bytes;
  return made;
}

std::string measure_link(TorchDevice& device, int32_t threads, int64_t block_bytes) {
  const auto measure = [&] {
    const py::gil_scoped_release release;
    return device.measure_link(threads, block_bytes);
  };
  return link_text(threads, unwrap(measure()));
}

// Codecs for copies to lower tiers: those of the CPU, and the device's own.
std::string measure_copy_codecs(TorchDevice& device, int32_t threads, int64_t piece_bytes) {
  constexpr int32_t kPieces = 4;
  const auto measure = [&]() -> Result<std::vector<Codec>> {
    const py::gil_scoped_release release;
    FITSTEP_TRY(
        std::vector<Codec> all,
        measure_codecs({.piece_bytes = piece_bytes, .pieces = kPieces, .threads = threads}));
    FITSTEP_TRY(const std::vector<Codec> own, device.measure_codecs());
    all.insert(all.end(), own.begin(), own.end());
    return all;
  };
  return codecs_text(threads, unwrap(measure()));
}

}  // namespace

void bind_devices(py::module_& module) {
  // Also for GPUs, which fitstep._cuda opens.
  py::class_<TorchDevice, std::shared_ptr<TorchDevice>>(module, "Device")
      .def("is_cpu", &TorchDevice::is_cpu)
      .def("alignment_bytes", &TorchDevice::alignment_bytes)
      .def("outside_bytes", &TorchDevice::outside_bytes)
      .def("memory_bytes", &TorchDevice::memory_bytes)
      .def("measure_link", &measure_link)
      .def("can_lock", &TorchDevice::can_lock)
      .def("measure_codecs", &measure_copy_codecs)
      .def("counters", &counters)
      .def("synchronize", &TorchDevice::synchronize);
  py::class_<TakenOut>(module, "TakenOut")
      .def(py::init<std::shared_ptr<TorchDevice>, const std::vector<at::Tensor>&>())
      .def("put_back", &TakenOut::put_back);
  module.def("cpu_device", &cpu_device);
  module.def("install_allocator", &install_allocator);
  module.def("reset_counted_peak", &reset_counted_peak);
  module.def("counted_peak_bytes", &counted_peak_bytes);
  module.def("counted_live_bytes", &counted_live_bytes);
  module.def("free_memory_bytes", [] { return free_memory_bytes(Swap::CountsNot); });
}

}  // namespace fitstep::torch_side

#include <ATen/Parallel.h>

#include "fitstep/base/check.h"
#include "fitstep_torch/bind/bindings.h"
#include "fitstep_torch/device.h"
#include "fitstep_torch/run.h"
#include "fitstep_torch/tensors.h"

namespace fitstep::torch_side {
namespace {

std::vector<std::string> names_of(const Variant& variant, const std::vector<StorageId>& storages) {
  std::vector<std::string> names;
  names.reserve(storages.size());
  for (const StorageId storage : storages)
    names.push_back(variant.step().program.storages[storage.index()].name);
  return names;
}

// Runs a step. Returns None, or (message, names of visible storages it may have written).
py::object run(Variant& variant,
               const std::vector<std::tuple<int32_t, std::optional<int64_t>>>& externals,
               const std::vector<at::Tensor>& tensors, bool is_interruptible) {
  std::vector<External> where;
  where.reserve(externals.size());
  for (const auto& [storage, offset] : externals)
    where.push_back({.storage = StorageId(storage), .offset_bytes = offset});
  std::optional<Stopped> stopped;
  {
    const Interrupts interrupts(is_interruptible);
    {
      const py::gil_scoped_release release;
      stopped = variant.run(where, tensors);
    }
    // An interrupt that did not stop the step goes to Python.
    if (interrupts.count() == 1 || (interrupts.count() > 1 && !stopped)) PyErr_SetInterrupt();
  }
  if (!stopped.has_value()) return py::none();
  return py::make_tuple(stopped->error.message, names_of(variant, variant.written(*stopped)));
}

TensorRef geometry(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                   int64_t offset, const py::object& dtype) {
  return {.storage = -1,
          .sizes = sizes,
          .strides = strides,
          .offset = offset,
          .dtype = dtype.cast<at::ScalarType>()};
}

using HomePair = std::pair<bool, int64_t>;  // (is below, offset in bytes)

Homes::Place place(const HomePair& home) {
  return {.tier = home.first ? kHostTier : kDeviceTier, .offset_bytes = home.second};
}

HomesOptions homes_options(const py::dict& from) {
  HomesOptions options{.size_bytes = from["size_bytes"].cast<int64_t>(),
                       .reserve_bytes = from["reserve_bytes"].cast<int64_t>(),
                       .host_capacity_bytes = from["host_bytes"].cast<int64_t>(),
                       .host_bottom_bytes = from["host_bottom_bytes"].cast<int64_t>(),
                       .has_homes_on_disk = from["has_homes_on_disk"].cast<bool>(),
                       .disk_capacity_bytes = from["disk_bytes"].cast<int64_t>()};
  if (options.disk_capacity_bytes > 0 || options.has_homes_on_disk)
    options.disk = disk_options(from["disk"]);
  return options;
}

// (bytes written, bytes read, whether the page cache is bypassed); None without a file.
py::object disk_traffic(const Homes& homes) {
  const std::optional<DiskTraffic> traffic = homes.disk_traffic();
  if (!traffic.has_value()) return py::none();
  return py::make_tuple(traffic->written_bytes, traffic->read_bytes, traffic->is_direct);
}

// For each copy in a code, in its last step: (value's name, tier, code, its bytes, bytes written).
py::list coded_copies(const Variant& variant) {
  py::list made;
  for (const Variant::CodedCopy& copy : variant.coded_copies()) {
    const Storage& storage = variant.step().program.storages[copy.storage.index()];
    made.append(py::make_tuple(storage.name, copy.tier == kHostTier ? "host" : "disk",
                               to_string(copy.code), copy.size.size_bytes,
                               copy.size.written_bytes));
  }
  return made;
}

// (number of runs by a graph, why other runs were not); None if no graph was requested.
py::object graph_of(const Variant& variant) {
  if (variant.graph() == nullptr) return py::none();
  return py::make_tuple(variant.graph()->replays(), variant.graph()->refusal());
}

}  // namespace

DiskFileOptions disk_options(const py::object& from) {
  return {.folder = from["folder"].cast<std::string>(),
          .piece_bytes = from["piece_bytes"].cast<int64_t>(),
          .has_checksums = from["has_checksums"].cast<bool>()};
}

namespace {

void bind_homes(py::module_& module) {
  module.def("generator_state", [](const at::Generator& generator) {
    std::string state(kGeneratorStateBytes, '\0');
    save_generator(generator, state.data());
    return py::bytes(state);
  });
  module.def("set_generator_state", [](const at::Generator& generator, const std::string& state) {
    FITSTEP_CHECK(state.size() == kGeneratorStateBytes, std::to_string(state.size()));
    load_generator(generator, state.data());
  });
  py::class_<Homes, std::shared_ptr<Homes>>(module, "Homes")
      .def(py::init([](std::shared_ptr<TorchDevice> device, const py::dict& options) {
        return std::shared_ptr<Homes>(
            unwrap(Homes::open(std::move(device), homes_options(options))));
      }))
      .def("reserve_disk",
           [](Homes& homes, int64_t size_bytes) {
             const auto reserve = [&] {
               const py::gil_scoped_release release;
               return homes.device()->reserve_disk(size_bytes);
             };
             unwrap(reserve());
           })
      .def("disk_traffic", &disk_traffic)
      .def("why_pageable", [](const Homes& homes) { return homes.device()->why_pageable(); })
      .def("host_traffic",
           [](const Homes& homes) {
             const HostTraffic& traffic = homes.device()->traffic();
             return std::pair(traffic.evicted_bytes.load(), traffic.prefetched_bytes.load());
           })
      .def("touch",
           [](Homes& homes, int64_t end_bytes) {
             unwrap(homes.touch(end_bytes, at::get_num_threads()));
           })
      .def("move_in", [](Homes& homes, const at::Tensor& tensor, const HomePair& home,
                         int64_t aliases) { unwrap(homes.move_in(tensor, place(home), aliases)); })
      .def("address_of",
           [](Homes& homes, const HomePair& home, int64_t size_bytes, const c10::Device& device) {
             return reinterpret_cast<uintptr_t>(
                 unwrap(homes.address_of(place(home), size_bytes, device)));
           })
      .def("discard_evicted", &Homes::discard_evicted)
      .def("lent", &Homes::lent)
      .def("take_over", [](Homes& homes, const at::Tensor& tensor,
                           const HomePair& home) { unwrap(homes.take_over(tensor, place(home))); })
      .def("move_out", [](Homes& homes, const at::Tensor& tensor,
                          int64_t handles) { homes.move_out(tensor, handles); })
      .def("make",
           [](Homes& homes, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
              int64_t offset, const py::object& dtype, int64_t size_bytes, const HomePair& home,
              const c10::Device& device) {
             return unwrap(homes.make(geometry(sizes, strides, offset, dtype), size_bytes,
                                      place(home), device));
           })
      .def("place_of",
           [](const Homes& homes, uintptr_t address) -> std::optional<HomePair> {
             const auto found = homes.place_of(reinterpret_cast<const void*>(address));
             if (!found.has_value()) return std::nullopt;
             return HomePair{found->tier == kHostTier, found->offset_bytes};
           })
      .def("is_home", [](const Homes& homes, const at::Tensor& tensor,
                         const HomePair& home) { return homes.is_home(tensor, place(home)); })
      .def("size_bytes", [](const Homes& homes) { return homes.arena().size_bytes(); })
      .def("host_bytes",
           [](const Homes& homes) { return homes.host() ? homes.host()->size_bytes() : 0; })
      .def("forsake", &Homes::forsake)
      .def("close", &Homes::close);
}

void bind_variants(py::module_& module) {
  py::class_<Variant>(module, "Variant")
      .def(py::init([](std::shared_ptr<StepProgram> step, const Plan& plan,
                       std::shared_ptr<Homes> homes, int64_t bottom_bytes, bool has_graph) {
        return unwrap(
            Variant::make(std::move(step), plan, std::move(homes), bottom_bytes, has_graph));
      }))
      .def("written", [](const Variant& variant) { return names_of(variant, variant.written()); })
      .def("set_number",
           [](Variant& variant, size_t op, size_t number, const py::object& value) {
             variant.set_number(OpId(op), number, number_from_python(value));
           })
      .def("set_numbers", &Variant::set_numbers)
      .def("run", &run)
      .def("take_outputs", &Variant::take_outputs)
      .def("misplaced", &Variant::misplaced)
      .def("graph", &graph_of)
      .def("sample_codes", &Variant::sample_codes)
      .def("sampled_program", &Variant::sampled_program)
      .def("coded_copies", &coded_copies);
}

}  // namespace

void bind_running(py::module_& module) {
  bind_homes(module);
  bind_variants(module);
}

}  // namespace fitstep::torch_side

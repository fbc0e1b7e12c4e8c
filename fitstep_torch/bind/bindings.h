// The parts of the compiled module, one per file, and how errors reach Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/run/disk_file.h"

namespace fitstep::torch_side {

void bind_devices(py::module_& module);    // Device, allocator
void bind_capture(py::module_& module);    // Profile, StepProgram
void bind_entered(py::module_& module);    // Watch
void bind_following(py::module_& module);  // Follower, Segment
void bind_tensors(py::module_& module);    // What Python asks of a tensor and its memory
void bind_planning(py::module_& module);   // Plan, make_plan, make_frontier, bytes
void bind_running(py::module_& module);    // Homes, Variant

// What the variables of a running function hold, those that hold anything.
py::list values_of_frame(const py::handle& frame);

// Raises fitstep._core.CoreError(code, message): python/fitstep/errors.py gives it its type.
[[noreturn]] void raise(const Error& error);

template <class T>
T unwrap(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(result).value();
}

// As the text of a machine that has only them: what machine(codecs=) takes.
std::string codecs_text(int32_t threads, std::vector<Codec> codecs);

// As the text of a machine whose only link it is: what machine(host_link=, disk_link=) takes.
std::string link_text(int32_t threads, const Link& link);

// From a dict: folder, piece_bytes, has_checksums.
DiskFileOptions disk_options(const py::object& from);

}  // namespace fitstep::torch_side

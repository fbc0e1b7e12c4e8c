// The parts of the compiled module, one per file, and how errors reach Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"
#include "fitstep/run/disk_file.h"

namespace fitstep::torch_side {

void bind_devices(py::module_& module);    // Device, allocator
void bind_profile(py::module_& module);    // Profile, StepProgram
void bind_entered(py::module_& module);    // Watch
void bind_following(py::module_& module);  // Follower, Segment
void bind_tensors(py::module_& module);    // Questions about a tensor and its memory
void bind_planning(py::module_& module);   // Plan, make_plan, make_frontier, bytes
void bind_report(py::module_& module);     // What pictures of a plan show
void bind_running(py::module_& module);    // Homes, Variant

// The values of the local variables of a running function; unset variables are left out.
py::list values_of_frame(const py::handle& frame);

// Raises fitstep._core.CoreError(code, message). Python turns it into a FitstepError.
[[noreturn]] void raise(const Error& error);

template <class T>
T unwrap(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(result).value();
}

// The codecs as the text of a machine: the argument that machine(codecs=) takes.
std::string codecs_text(int32_t threads, std::vector<Codec> codecs);

// The link as the text of a machine: the argument that machine(host_link=, disk_link=) takes.
std::string link_text(int32_t threads, const Link& link);

// Reads the keys folder, piece_bytes and has_checksums of a dict.
DiskFileOptions disk_options(const py::object& from);

}  // namespace fitstep::torch_side

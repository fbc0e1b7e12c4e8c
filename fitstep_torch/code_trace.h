// Which Python functions ran: the code objects that were entered while tracing was on.
//
// Capture needs this to tell which of the user's numbers a recording may have read. A hook in C++
// costs some tens of nanoseconds a call; one in Python would double the time of a capture.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace fitstep::torch_side {

// REQUIRES: no trace is on. Replaces a profile function that is set, until the end.
void begin_code_trace();

// The code objects, each once, in order of first entry.
py::list end_code_trace();

}  // namespace fitstep::torch_side

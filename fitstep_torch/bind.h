// Bind: the module fitstep._core, one function for each group of names.
//
//   python/fitstep <--> bind_*.cpp <--> the other rooms
#pragma once

#include "fitstep_torch/bind/bindings.h"  // IWYU pragma: export

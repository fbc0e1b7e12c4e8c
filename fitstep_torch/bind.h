// Bind: the compiled module fitstep._core, which Python imports. One bind_*.cpp for each group.
//
//   python/fitstep <--> bind_*.cpp <--> the other rooms
#pragma once

#include "fitstep_torch/bind/bindings.h"  // IWYU pragma: export

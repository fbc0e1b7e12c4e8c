// Measures codecs (codecs.h) on this machine: one thread codes while others compute as ops do, on
// pieces of a copy's size. Half of the words are zero, the others are normally distributed, as
// after a ReLU. Also measures how much a coding thread slows the computing threads.
#pragma once

#include <cstdint>
#include <vector>

#include "fitstep/base/result.h"
#include "fitstep/machine/machine.h"

namespace fitstep {

struct CodecOptions {
  int64_t piece_bytes = int64_t{1} << 20;
  int32_t pieces = 16;
  int32_t rounds = 3;
  int32_t threads = 1;  // Threads that compute.
};

// For Machine::codecs: one codec per code, with its name in plan files. Error: an option is not
// positive.
Result<std::vector<Codec>> measure_codecs(const CodecOptions& options);

}  // namespace fitstep

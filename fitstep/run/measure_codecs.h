// What codes of copies (codecs.h) cost, measured here and now: by one thread beside work as ops do
// it, on pieces of a copy's size of which half of the words are zero and the rest are the numbers
// of a normal distribution, as behind a ReLU; and how much slower that work is beside such a
// thread. Decoding counts from the first byte of the code to the last of the content.
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
  int32_t threads = 1;  // That compute.
};

// For Machine::codecs: one for each code that copies can be made in, by the name of plan files.
// An error where an option is not positive.
Result<std::vector<Codec>> measure_codecs(const CodecOptions& options);

}  // namespace fitstep

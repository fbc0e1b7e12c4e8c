// Runs a work of pack_elements.h or hash_words.h on a GPU: a thread for each item.
#pragma once

#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep_cuda/cuda.h"

namespace fitstep::cuda {

// Puts it into the stream and returns. There for the works that launch.cu lists.
template <class Work>
Status launch(const Work& work, int64_t items, Stream stream);

}  // namespace fitstep::cuda

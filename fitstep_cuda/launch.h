// Runs a work of pack_elements.h, pool_elements.h, zero_value_*.h or hash_words.h on a GPU: one
// thread per item.
#pragma once

#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/hash_words.h"
#include "fitstep_cuda/pack_elements.h"
#include "fitstep_cuda/pool_elements.h"
#include "fitstep_cuda/zero_value_elements.h"
#include "fitstep_cuda/zero_value_words.h"

namespace fitstep::cuda {

// Queues `work` in the stream and returns. Defined for the works of FITSTEP_WORKS.
template <class Work>
Status launch(const Work& work, int64_t items, Stream stream);

// All works: instantiate them in every file that defines launch().
#define FITSTEP_WORKS(make)                                                                  \
  make(PackSigns<float>) make(PackSigns<double>) make(PackBools) make(KeepFlagged<float>)    \
      make(KeepFlagged<double>) make(ScaleUnflagged<float>) make(ScaleUnflagged<double>)     \
          make(MultiplyTwice<float>) make(MultiplyTwice<double>) make(PackPool)              \
              make(MaxPool<float>) make(MaxPool<double>) make(AddPooled<float>)              \
                  make(AddPooled<double>) make(HashWords<uint64_t>) make(HashWords<uint8_t>) \
                      make(MaskGroups) make(CountBlocks) make(PlaceGroups) make(PutCoded)    \
                          make(TakeMasks) make(TakeWords)

}  // namespace fitstep::cuda

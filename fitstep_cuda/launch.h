// Runs a work of pack_elements.h, pool_elements.h, zero_value_*.h or hash_words.h on a GPU: a
// thread for each item.
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

// Puts it into the stream and returns. There for the works of FITSTEP_WORKS.
template <class Work>
Status launch(const Work& work, int64_t items, Stream stream);

// All of them: to be made wherever launch() is defined.
#define FITSTEP_WORKS(make)                                                                  \
  make(PackSigns<float>) make(PackSigns<double>) make(PackBools) make(KeepFlagged<float>)    \
      make(KeepFlagged<double>) make(ScaleUnflagged<float>) make(ScaleUnflagged<double>)     \
          make(MultiplyTwice<float>) make(MultiplyTwice<double>) make(PackPool)              \
              make(MaxPool<float>) make(MaxPool<double>) make(AddPooled<float>)              \
                  make(AddPooled<double>) make(HashWords<uint64_t>) make(HashWords<uint8_t>) \
                      make(MaskGroups) make(CountBlocks) make(PlaceGroups) make(PutCoded)    \
                          make(TakeMasks) make(TakeWords)

}  // namespace fitstep::cuda

// Works of packing operators behind the stand-in for a GPU: item after item on the host, once
// everything in front of them in the stream has run.
#include <cstdint>

#include "fitstep/base/result.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/hash_words.h"
#include "fitstep_cuda/launch.h"
#include "fitstep_cuda/pack_elements.h"

extern "C" bool fitstep_stand_in_wait();

namespace fitstep::cuda {

template <class Work>
Status launch(const Work& work, int64_t items, Stream) {
  if (!fitstep_stand_in_wait()) return Error{ErrorCode::Device, "the stand-in was told to fail"};
  for (int64_t i = 0; i < items; ++i) work(i);
  return Done{};
}

template Status launch(const PackSigns<float>&, int64_t, Stream);
template Status launch(const PackSigns<double>&, int64_t, Stream);
template Status launch(const PackBools&, int64_t, Stream);
template Status launch(const KeepFlagged<float>&, int64_t, Stream);
template Status launch(const KeepFlagged<double>&, int64_t, Stream);
template Status launch(const ScaleUnflagged<float>&, int64_t, Stream);
template Status launch(const ScaleUnflagged<double>&, int64_t, Stream);
template Status launch(const MultiplyTwice<float>&, int64_t, Stream);
template Status launch(const MultiplyTwice<double>&, int64_t, Stream);
template Status launch(const PackPool&, int64_t, Stream);
template Status launch(const AddPooled<float>&, int64_t, Stream);
template Status launch(const AddPooled<double>&, int64_t, Stream);
template Status launch(const HashWords<uint64_t>&, int64_t, Stream);
template Status launch(const HashWords<uint8_t>&, int64_t, Stream);

}  // namespace fitstep::cuda

// Works of kernels behind the stand-in for a GPU: item after item on the host, once everything in
// front of them in the stream has run.
#include <cstdint>
#include <functional>

#include "fitstep/base/result.h"
#include "fitstep_cuda/cuda.h"
#include "fitstep_cuda/launch.h"

extern "C" bool fitstep_stand_in_launch(const std::function<void()>& kernel,
                                        fitstep::cuda::Stream stream);

namespace fitstep::cuda {

template <class Work>
Status launch(const Work& work, int64_t items, Stream stream) {
  const auto kernel = [work, items] {
    for (int64_t i = 0; i < items; ++i) work(i);
  };
  if (fitstep_stand_in_launch(kernel, stream)) return Done{};
  return Error{ErrorCode::Device, "the stand-in was told to fail"};
}

#define FITSTEP_MAKE(Work) template Status launch(const Work&, int64_t, Stream);
FITSTEP_WORKS(FITSTEP_MAKE)

}  // namespace fitstep::cuda

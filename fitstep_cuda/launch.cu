// The only file that nvcc compiles.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "fitstep_cuda/hash_words.h"
#include "fitstep_cuda/launch.h"
#include "fitstep_cuda/pack_elements.h"

namespace fitstep::cuda {
namespace {

constexpr int64_t kThreads = 256;  // Of a block.
constexpr int64_t kMostBlocks = int64_t{1} << 20;

template <class Work>
__global__ void run(Work work, int64_t items) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < items; i += threads) work(i);
}

}  // namespace

template <class Work>
Status launch(const Work& work, int64_t items, Stream stream) {
  if (items == 0) return Done{};
  const int64_t blocks = std::min((items + kThreads - 1) / kThreads, kMostBlocks);
  run<<<static_cast<unsigned>(blocks), static_cast<unsigned>(kThreads), 0, stream>>>(work, items);
  const cudaError_t code = cudaGetLastError();
  if (code == cudaSuccess) return Done{};
  return Error{ErrorCode::Device, std::string("a kernel failed: ") +
                                      cudaGetErrorString(code)};
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

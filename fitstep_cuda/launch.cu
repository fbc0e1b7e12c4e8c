// The only file that nvcc compiles.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "fitstep_cuda/launch.h"

namespace fitstep::cuda {
namespace {

constexpr int64_t kThreads = 256;  // Per block.
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
  return Error{ErrorCode::Device, std::string("a kernel failed: ") + cudaGetErrorString(code)};
}

#define FITSTEP_MAKE(Work) template Status launch(const Work&, int64_t, Stream);
FITSTEP_WORKS(FITSTEP_MAKE)

}  // namespace fitstep::cuda

# The GPU as a device. All but the calls of the CUDA runtime is built and tested everywhere; those
# need a toolkit's headers and library, and only to run a GPU.
file(GLOB cuda_sources CONFIGURE_DEPENDS fitstep_cuda/*.cpp)
list(FILTER cuda_sources EXCLUDE REGEX "(_test|/runtime)\\.cpp$")
add_library(fitstep_cuda STATIC ${cuda_sources})
target_link_libraries(fitstep_cuda PUBLIC fitstep_run)

find_package(CUDAToolkit 12 QUIET)
if(CUDAToolkit_FOUND)
  message(STATUS "CUDA ${CUDAToolkit_VERSION}: the GPU's runtime is built")
  add_library(fitstep_cuda_runtime STATIC fitstep_cuda/runtime.cpp)
  target_link_libraries(fitstep_cuda_runtime PUBLIC fitstep_cuda CUDA::cudart)
else()
  message(STATUS "CUDA: skipped, there is no toolkit")
endif()

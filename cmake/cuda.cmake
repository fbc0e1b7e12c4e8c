# The GPU as a device. All but the calls of the CUDA runtime is built and tested everywhere; those
# need a toolkit's headers and library, and only to run a GPU.
file(GLOB cuda_sources CONFIGURE_DEPENDS fitstep_cuda/*.cpp)
list(FILTER cuda_sources EXCLUDE REGEX "(_test|/runtime)\\.cpp$")
add_library(fitstep_cuda STATIC ${cuda_sources})
target_link_libraries(fitstep_cuda PUBLIC fitstep_run)

find_package(CUDAToolkit 12 QUIET)
if(NOT CUDAToolkit_FOUND)
  message(STATUS "CUDA: skipped, there is no toolkit")
  return()
endif()
if(NOT CUDAToolkit_NVCC_EXECUTABLE)
  message(STATUS "CUDA: skipped, the toolkit has no nvcc")
  return()
endif()
message(STATUS "CUDA ${CUDAToolkit_VERSION}: the GPU's runtime is built")

# Kernels, for these kinds of GPUs; the last also as text that drivers compile for later ones.
set(FITSTEP_GPUS "75;80;86;89;90" CACHE STRING "Compute capabilities that kernels are compiled for")
set(launch_object ${CMAKE_CURRENT_BINARY_DIR}/launch.o)
set(gpu_flags)
foreach(gpu IN LISTS FITSTEP_GPUS)
  list(APPEND gpu_flags -gencode arch=compute_${gpu},code=sm_${gpu})
endforeach()
list(GET FITSTEP_GPUS -1 last_gpu)
add_custom_command(OUTPUT ${launch_object}
  COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++20 -O3 -c -Xcompiler -fPIC,-fvisibility=hidden
    ${gpu_flags} -gencode arch=compute_${last_gpu},code=compute_${last_gpu}
    -I${PROJECT_SOURCE_DIR} -MD -MF ${launch_object}.d -o ${launch_object}
    ${PROJECT_SOURCE_DIR}/fitstep_cuda/launch.cu
  DEPENDS fitstep_cuda/launch.cu DEPFILE ${launch_object}.d VERBATIM)
# An archive: who brings launch() along that runs on the host takes none of it.
add_library(fitstep_kernels STATIC EXCLUDE_FROM_ALL ${launch_object})
set_target_properties(fitstep_kernels PROPERTIES LINKER_LANGUAGE CXX)
set_source_files_properties(${launch_object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)

add_library(fitstep_cuda_runtime STATIC fitstep_cuda/runtime.cpp)
target_link_libraries(fitstep_cuda_runtime PUBLIC fitstep_cuda fitstep_kernels CUDA::cudart)

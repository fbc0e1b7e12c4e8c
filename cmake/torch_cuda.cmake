# Lets a torch that knows no GPU capture steps for one (tests/torch/test_gpu_capture.py).
if(FITSTEP_TESTS AND NOT EXISTS ${torch_dir}/lib/libc10_cuda.so)
  add_library(gpu_stand_in MODULE tests/gpu/stand_in_tool.cpp)
  set_target_properties(gpu_stand_in PROPERTIES PREFIX "" BUILD_RPATH ${torch_dir}/lib)
  target_include_directories(gpu_stand_in SYSTEM BEFORE PRIVATE ${torch_dir}/include)
  target_compile_definitions(gpu_stand_in PRIVATE _GLIBCXX_USE_CXX11_ABI=${torch_abi})
  target_link_libraries(gpu_stand_in PRIVATE
    fitstep_options ${torch_dir}/lib/libtorch_cpu.so ${torch_dir}/lib/libc10.so)
endif()

# The GPU's side that knows torch (fitstep_torch_cuda/): compiled wherever the CUDA toolkit is,
# against any build of torch, for those without a GPU have its headers too. What is made of it links
# only where torch has its GPU libraries.
if(NOT TARGET fitstep_cuda_runtime)
  return()  # cmake/cuda.cmake has said so.
endif()

file(GLOB torch_cuda_sources CONFIGURE_DEPENDS fitstep_torch_cuda/*.cpp)
list(FILTER torch_cuda_sources EXCLUDE REGEX "_test\\.cpp$")
add_library(fitstep_torch_cuda OBJECT ${torch_cuda_sources})
target_link_libraries(fitstep_torch_cuda PUBLIC fitstep_cuda_runtime)
target_include_directories(fitstep_torch_cuda SYSTEM BEFORE PUBLIC
  ${torch_dir}/include ${torch_dir}/include/torch/csrc/api/include)
target_compile_definitions(fitstep_torch_cuda PUBLIC _GLIBCXX_USE_CXX11_ABI=${torch_abi})
target_compile_options(fitstep_torch_cuda PUBLIC
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
if(NOT EXISTS ${torch_dir}/include/c10/cuda/impl/cuda_cmake_macros.h)
  # The one header that is made when torch is built for a GPU; on Linux nothing in it matters.
  target_compile_definitions(fitstep_torch_cuda PUBLIC C10_CUDA_NO_CMAKE_CONFIGURE_FILE)
endif()

if(FITSTEP_TESTS)
  # The test has what it calls of torch's GPU libraries itself. The rest of them, of which only
  # addresses are taken, is nowhere: these links are left open.
  fitstep_test(torch_cuda_test fitstep_torch_cuda/*_test.cpp
    fitstep_torch_cuda ${torch_dir}/lib/libc10.so)
  set_target_properties(torch_cuda_test PROPERTIES BUILD_RPATH ${torch_dir}/lib)
  target_compile_options(torch_cuda_test PRIVATE -fno-pie)
  target_link_options(torch_cuda_test PRIVATE -no-pie -Wl,--unresolved-symbols=ignore-all)
endif()

# What `make gpu-check` asks of a GPU: compiled with the tests, linked where torch has its GPU.
if(FITSTEP_TESTS)
  add_library(gpu_tool_objects OBJECT tests/gpu/gpu_tool.cpp)
  target_link_libraries(gpu_tool_objects PRIVATE fitstep_torch_cuda)
  if(EXISTS ${torch_dir}/lib/libc10_cuda.so)
    add_library(gpu_tool MODULE EXCLUDE_FROM_ALL $<TARGET_OBJECTS:gpu_tool_objects>)
    set_target_properties(gpu_tool PROPERTIES PREFIX "" BUILD_RPATH ${torch_dir}/lib)
    target_link_libraries(gpu_tool PRIVATE fitstep_torch_cuda
      ${torch_dir}/lib/libtorch_cuda.so ${torch_dir}/lib/libc10_cuda.so
      ${torch_dir}/lib/libtorch_cpu.so ${torch_dir}/lib/libc10.so)
  endif()
endif()

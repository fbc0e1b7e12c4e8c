if(EXISTS ${torch_dir}/lib/libc10_cuda.so)
  set(torch_has_cuda ON)
else()
  set(torch_has_cuda OFF)
endif()

# Lets a torch that knows no GPU capture steps for one (tests/torch/operators/test_gpu_steps.py).
if(FITSTEP_TESTS AND NOT torch_has_cuda)
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
list(FILTER torch_cuda_sources EXCLUDE REGEX "(_test|/bindings|/gpu_device|/pack_operators)\\.cpp$")
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

# With the toolkit it runs steps as well (tests/torch/operators/test_gpu_steps.py).
if(TARGET gpu_stand_in)
  target_sources(gpu_stand_in PRIVATE
    tests/gpu/stand_in_runtime_tool.cpp tests/gpu/stand_in_torch_tool.cpp
    tests/gpu/stand_in_workspaces_tool.cpp)
  target_include_directories(gpu_stand_in SYSTEM BEFORE PRIVATE
    ${torch_dir}/include/torch/csrc/api/include)
  target_include_directories(gpu_stand_in SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_definitions(gpu_stand_in PRIVATE C10_CUDA_NO_CMAKE_CONFIGURE_FILE)
  target_compile_options(gpu_stand_in PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_libraries(gpu_stand_in PRIVATE fitstep_test_support)
endif()

# What follows is made for a torch with its GPU, and to be tested without one.
if(NOT (torch_has_cuda OR FITSTEP_TESTS))
  return()
endif()

# fitstep._cuda. Where torch has no GPU libraries it can only be loaded behind the stand-in for
# them, which does on the host what kernels do.
set(launch)
if(NOT torch_has_cuda)
  set(launch tests/gpu/launch_on_host.cpp)
endif()
add_library(_cuda MODULE fitstep_torch_cuda/bindings.cpp fitstep_torch_cuda/gpu_device.cpp
  fitstep_torch_cuda/pack_operators.cpp ${launch})
set_target_properties(_cuda PROPERTIES
  PREFIX "" SUFFIX ${module_suffix}
  BUILD_RPATH ${torch_dir}/lib INSTALL_RPATH "$ORIGIN/../../../torch/lib")
target_include_directories(_cuda SYSTEM BEFORE PRIVATE ${python_include})
target_compile_definitions(_cuda PRIVATE TORCH_EXTENSION_NAME=_cuda TORCH_API_INCLUDE_EXTENSION_H)
target_link_libraries(_cuda PRIVATE fitstep_torch_cuda
  ${torch_dir}/lib/libtorch_python.so ${torch_dir}/lib/libtorch_cpu.so ${torch_dir}/lib/libc10.so)
if(torch_has_cuda)
  target_link_libraries(_cuda PRIVATE
    ${torch_dir}/lib/libtorch_cuda.so ${torch_dir}/lib/libc10_cuda.so)
  if(SKBUILD)
    install(TARGETS _cuda LIBRARY DESTINATION fitstep/_built/${torch_minor})
  else()
    add_custom_target(cuda_in_tree ALL
      COMMAND ${CMAKE_COMMAND} -E make_directory ${modules_dir}
      COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:_cuda> ${modules_dir}/
      DEPENDS _cuda)
  endif()
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
  if(torch_has_cuda)
    add_library(gpu_tool MODULE EXCLUDE_FROM_ALL $<TARGET_OBJECTS:gpu_tool_objects>)
    set_target_properties(gpu_tool PROPERTIES PREFIX "" BUILD_RPATH ${torch_dir}/lib)
    target_link_libraries(gpu_tool PRIVATE fitstep_torch_cuda
      ${torch_dir}/lib/libtorch_cuda.so ${torch_dir}/lib/libc10_cuda.so
      ${torch_dir}/lib/libtorch_cpu.so ${torch_dir}/lib/libc10.so)
  endif()
endif()

# The Python module fitstep._core, against the torch of one Python interpreter. Not by
# find_package(Torch): a CUDA build of torch would demand the CUDA toolkit, which we do not use.
if(NOT DEFINED Python_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
elseif(NOT DEFINED Python_EXECUTABLE)
  find_package(Python 3.10 COMPONENTS Interpreter)
endif()

# Asked anew when another torch lies where the last one lay.
list(GET FITSTEP_TORCH_FACTS 0 torch_dir)
set(torch_of "${Python_EXECUTABLE}")
if(EXISTS "${torch_dir}/version.py")
  file(SHA256 "${torch_dir}/version.py" version_hash)
  string(APPEND torch_of " ${version_hash}")
endif()
if(NOT "${FITSTEP_TORCH_OF}" STREQUAL "${torch_of}" OR NOT FITSTEP_TORCH_FACTS)
  execute_process(
    COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/torch_facts.py
    OUTPUT_VARIABLE facts ERROR_VARIABLE failure RESULT_VARIABLE status
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    if(FITSTEP_TORCH STREQUAL "ON")
      message(FATAL_ERROR "Cannot build fitstep._core for '${Python_EXECUTABLE}': ${failure}")
    endif()
    message(STATUS "No torch in '${Python_EXECUTABLE}': only the core is built")
    return()
  endif()
  list(GET facts 0 torch_dir)
  file(SHA256 "${torch_dir}/version.py" version_hash)
  set(FITSTEP_TORCH_OF "${Python_EXECUTABLE} ${version_hash}" CACHE INTERNAL "")
  set(FITSTEP_TORCH_FACTS ${facts} CACHE INTERNAL "")
endif()
list(GET FITSTEP_TORCH_FACTS 0 torch_dir)
list(GET FITSTEP_TORCH_FACTS 1 torch_abi)
list(GET FITSTEP_TORCH_FACTS 2 python_include)
list(GET FITSTEP_TORCH_FACTS 3 module_suffix)
file(STRINGS ${torch_dir}/version.py torch_version REGEX "^__version__ = ")
string(REGEX MATCH "[0-9]+\\.[0-9]+[0-9a-z.+]*" torch_version "${torch_version}")

file(GLOB torch_sources CONFIGURE_DEPENDS fitstep_torch/*/*.cpp)
list(FILTER torch_sources EXCLUDE REGEX "_test\\.cpp$")
if(NOT torch_sources)
  return()
endif()

add_library(_core MODULE ${torch_sources})
fitstep_unity(_core)
set_target_properties(_core PROPERTIES
  PREFIX "" SUFFIX ${module_suffix}
  BUILD_RPATH ${torch_dir}/lib
  # An installed module is loaded after `import torch`, which has loaded these libraries already.
  INSTALL_RPATH "$ORIGIN/../../../torch/lib")
target_include_directories(_core SYSTEM BEFORE PRIVATE
  ${torch_dir}/include ${torch_dir}/include/torch/csrc/api/include ${python_include}
  ${PROJECT_SOURCE_DIR}/.deps/usr/include)
target_compile_definitions(_core PRIVATE
  TORCH_EXTENSION_NAME=_core TORCH_API_INCLUDE_EXTENSION_H _GLIBCXX_USE_CXX11_ABI=${torch_abi}
  FMT_HEADER_ONLY=1)  # torch has its own fmt, of another version, among its headers.
# g++ 12 sees uninitialised memory in torch's headers wherever an optional tensor is copied.
target_compile_options(_core PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
file(GLOB own_kernels CONFIGURE_DEPENDS fitstep_torch/own_kernels/*.cpp)
# Their loops, and PyTorch's threads, are what they are for: vectorised and parallel in every build.
set_source_files_properties(
  ${own_kernels}
  PROPERTIES COMPILE_OPTIONS "-O3;-fopenmp" SKIP_PRECOMPILE_HEADERS ON)
# Reading them takes two fifths of the time of a file.
target_precompile_headers(_core PRIVATE
  <ATen/core/dispatch/Dispatcher.h> <ATen/core/stack.h> <ATen/core/Tensor.h>)
target_link_libraries(_core PRIVATE
  fitstep_planner fitstep_report fitstep_xxhash
  ${torch_dir}/lib/libtorch_python.so ${torch_dir}/lib/libtorch_cpu.so ${torch_dir}/lib/libc10.so)

include(cmake/torch_cuda.cmake)

# In the tree each build of torch has a folder of its own; several presets share it. A wheel is for
# all patch releases (python/fitstep/versions.py).
set(modules_dir ${PROJECT_SOURCE_DIR}/python/fitstep/_built/${torch_version})
string(REGEX MATCH "^[0-9]+\\.[0-9]+" torch_minor "${torch_version}")
if(SKBUILD)
  install(TARGETS _core LIBRARY DESTINATION fitstep/_built/${torch_minor})
else()
  add_custom_target(in_tree ALL
    # By a rename: a process that runs keeps the file that it has mapped.
    COMMAND ${CMAKE_COMMAND} -E make_directory ${modules_dir}
    COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:_core> ${modules_dir}/_core.new
    COMMAND ${CMAKE_COMMAND} -E rename ${modules_dir}/_core.new
      ${modules_dir}/$<TARGET_FILE_NAME:_core>
    COMMENT "Putting the module into python/fitstep"
    DEPENDS _core)
endif()

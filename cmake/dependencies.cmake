# What the core needs, from `.deps/usr` (filled by `make deps`, carried without network) or from the
# system. fmt and zstd are linked statically, so an installed module needs neither.
list(PREPEND CMAKE_PREFIX_PATH ${PROJECT_SOURCE_DIR}/.deps/usr)
# Debian's multi-arch folder is known to CMake only under the prefix it compiles for.
if(NOT CMAKE_LIBRARY_ARCHITECTURE)
  set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_CXX_LIBRARY_ARCHITECTURE})
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
if(fmt_VERSION VERSION_LESS 10)
  add_library(fitstep_fmt STATIC cmake/fmt.cpp)
  get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  target_include_directories(fitstep_fmt SYSTEM PUBLIC ${fmt_include})
else()  # Slower to compile, and right for every version.
  add_library(fitstep_fmt INTERFACE)
  target_link_libraries(fitstep_fmt INTERFACE fmt::fmt-header-only)
endif()
find_package(nlohmann_json 3.10 REQUIRED)
find_package(CLI11 2.1 REQUIRED)

# Debian's zstd has no CMake package.
find_path(FITSTEP_ZSTD_INCLUDE zstd.h REQUIRED)
find_library(FITSTEP_ZSTD_LIBRARY NAMES libzstd.a zstd REQUIRED)
add_library(fitstep_zstd INTERFACE)
target_include_directories(fitstep_zstd SYSTEM INTERFACE ${FITSTEP_ZSTD_INCLUDE})
target_link_libraries(fitstep_zstd INTERFACE ${FITSTEP_ZSTD_LIBRARY})
# Debian compiles it for programs; in a shared module nothing else may then bind to its symbols.
target_link_options(fitstep_zstd INTERFACE LINKER:--exclude-libs,libzstd.a)

# Nor has its xxHash, of which headers are enough.
find_path(FITSTEP_XXHASH_INCLUDE xxhash.h REQUIRED)
add_library(fitstep_xxhash INTERFACE)
target_include_directories(fitstep_xxhash SYSTEM INTERFACE ${FITSTEP_XXHASH_INCLUDE})
target_compile_definitions(fitstep_xxhash INTERFACE XXH_INLINE_ALL)

# libFuzzer on every reader, with the address and undefined-behaviour sanitizers: `make fuzz`.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "FITSTEP_FUZZ needs clang (-DCMAKE_CXX_COMPILER=clang++), for its libFuzzer; "
    "this is ${CMAKE_CXX_COMPILER_ID}")
endif()
set(fuzz_flags -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
target_compile_options(fitstep_options INTERFACE ${fuzz_flags} -fno-omit-frame-pointer)
target_link_options(fitstep_options INTERFACE ${fuzz_flags})

# fitstep_fuzz(<reader> <what it links>...): target fuzz_<reader>.
add_custom_target(fuzz_all)
function(fitstep_fuzz reader)
  add_executable(fuzz_${reader} EXCLUDE_FROM_ALL tests/fuzz/${reader}_fuzz.cpp)
  target_link_libraries(fuzz_${reader} PRIVATE ${ARGN})
  target_link_options(fuzz_${reader} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzz_all fuzz_${reader})
endfunction()

fitstep_fuzz(program fitstep_program)
fitstep_fuzz(packed fitstep_program)
fitstep_fuzz(plan fitstep_plan)
fitstep_fuzz(machine fitstep_machine)
fitstep_fuzz(layout fitstep_plan)
target_sources(fuzz_layout PRIVATE cli/block_file.cpp)

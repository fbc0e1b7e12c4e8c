# One gtest binary per folder: unit tests beside their sources, and sweeps over many programs, which
# cross folders, in tests/. The target unit_tests builds the former alone.
find_package(GTest REQUIRED)
find_package(rapidcheck REQUIRED)
include(CTest)
set(FITSTEP_SHARED_DATA "" CACHE PATH "Published layout instances; optional")

# Helpers shared by tests: everything below tests/ that is not itself a test.
file(GLOB support_sources CONFIGURE_DEPENDS tests/*/*.cpp)
list(FILTER support_sources EXCLUDE REGEX "_(test|tool|fuzz|host)\\.cpp$")
if(support_sources)
  add_library(fitstep_test_support STATIC ${support_sources})
  fitstep_unity(fitstep_test_support)
  target_link_libraries(fitstep_test_support PUBLIC
    fitstep_planner fitstep_run fitstep_cuda GTest::gtest rapidcheck)
  if(TARGET fitstep_cuda_runtime)  # Where there is a GPU, it has to keep the contract too.
    target_compile_definitions(fitstep_test_support PRIVATE FITSTEP_HAS_CUDA)
    target_link_libraries(fitstep_test_support PRIVATE fitstep_cuda_runtime)
  endif()
else()
  add_library(fitstep_test_support INTERFACE)
endif()

# Sanitizers are ten times slower, and so is the long form of the sweeps (tools/test_long.sh).
set(FITSTEP_TEST_TIMEOUT 1200 CACHE STRING "Seconds that one test binary may take")
if(FITSTEP_SANITIZE)
  set(FITSTEP_TEST_TIMEOUT 3600)
endif()

add_custom_target(unit_tests)

# fitstep_test(<name> <glob> <what it links>...): target and ctest entry <name>, if sources match.
function(fitstep_test name pattern)
  file(GLOB sources CONFIGURE_DEPENDS ${pattern})
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  fitstep_unity(${name})
  target_compile_definitions(${name} PRIVATE FITSTEP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(FITSTEP_SHARED_DATA)
    target_compile_definitions(${name} PRIVATE FITSTEP_SHARED_DATA="${FITSTEP_SHARED_DATA}")
  endif()
  target_link_libraries(${name} PRIVATE ${ARGN} rapidcheck GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${FITSTEP_TEST_TIMEOUT})
  if(pattern MATCHES "^tests/")
    set_tests_properties(${name} PROPERTIES LABELS sweep)
  else()
    add_dependencies(unit_tests ${name})
  endif()
endfunction()

fitstep_test(base_test fitstep/base/*_test.cpp fitstep_base)
fitstep_test(program_test fitstep/program/*_test.cpp fitstep_program)
fitstep_test(machine_test fitstep/machine/*_test.cpp fitstep_machine)
fitstep_test(plan_test fitstep/plan/*_test.cpp fitstep_plan fitstep_test_support)
fitstep_test(simulate_test fitstep/simulate/*_test.cpp fitstep_simulate fitstep_test_support)
fitstep_test(planner_test "fitstep/planner/*_test.cpp;fitstep/planner/*/*_test.cpp"
  fitstep_planner fitstep_test_support)
fitstep_test(run_test "fitstep/run/*_test.cpp;fitstep/run/measure/*_test.cpp"
  fitstep_run fitstep_test_support)
# Of the side of PyTorch, what needs none of it.
fitstep_test(torch_side_test fitstep_torch/*/*_test.cpp fitstep_base)
target_sources(torch_side_test PRIVATE fitstep_torch/profile/run_times.cpp)
fitstep_test(report_test fitstep/report/*_test.cpp fitstep_report fitstep_test_support)
fitstep_test(cli_test "cli/*_test.cpp;cli/verbs/*_test.cpp" fitstep_cli fitstep_test_support)
foreach(kind property stress contract golden)
  fitstep_test(${kind}_test tests/${kind}/*_test.cpp
    fitstep_cli fitstep_test_support)
endforeach()
# Takes longest: two halves, side by side.
if(TARGET property_test)
  set_tests_properties(property_test PROPERTIES
    ENVIRONMENT "GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=0")
  add_test(NAME property_test_2 COMMAND property_test)
  set_tests_properties(property_test_2 PROPERTIES
    ENVIRONMENT "GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=1"
    TIMEOUT ${FITSTEP_TEST_TIMEOUT} LABELS sweep)
endif()

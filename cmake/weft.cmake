# What every target of weft has in common, and the functions that make them.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Sources with options of their own, kernels for example, are left alone.
set(CMAKE_UNITY_BUILD ${WEFT_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 6)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

# Flags of every translation unit. Contraction is off because the bits of a sum are a contract.
add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers
                                            -ffp-contract=off -fno-math-errno)
# Which lock guards what is written with the members (base/mutex.h); clang checks it, in the builds with sanitizers.
target_compile_options(weft_flags INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety;-Werror=thread-safety>)
target_include_directories(weft_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
# Packages unpacked without root (./dev setup --prefix) keep some headers where only the system's compiler looks.
set(WEFT_PREFIX "" CACHE PATH "Where ./dev setup --prefix unpacked packages")
if(WEFT_PREFIX)
  target_include_directories(weft_flags SYSTEM INTERFACE ${WEFT_PREFIX}/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
                                                         ${WEFT_PREFIX}/usr/include)
endif()
if(WEFT_SANITIZE)
  # A C caller may pass any number as an enum, and the library must look at it to refuse it. Without -fstrict-enums that
  # is defined, so the check of loads of enums finds nothing but these refusals.
  target_compile_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer
                                              -fno-sanitize-recover=all -fno-sanitize=enum)
  target_link_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE})
  target_compile_definitions(weft_flags INTERFACE WEFT_SANITIZE=1)
endif()

include(${CMAKE_CURRENT_LIST_DIR}/precompile.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/kernels.cmake)

# weft_layer(comm DEPS weft_base): the static library of one layer; its folders add their sources with
# target_sources(weft_comm PRIVATE ...).
function(weft_layer name)
  cmake_parse_arguments(arg "" "" "DEPS" ${ARGN})
  add_library(weft_${name} STATIC)
  target_link_libraries(weft_${name} PUBLIC weft_flags ${arg_DEPS})
  weft_precompile_layer(weft_${name})
endfunction()

# weft_program(weft_perf SOURCES main.cc LIBS weft): a program in bin/.
function(weft_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE weft_flags ${arg_LIBS})
endfunction()

# Test programs are many, and a change of a layer links all of them again: lld takes a third of ld's time.
find_program(WEFT_TEST_LINKER ld.lld)

# What a test spends its time in is in the libraries; optimising the test itself, or describing it to a debugger, only
# costs compile time. -g in CXXFLAGS or the dev preset bring debug information back.
function(weft_test_flags name)
  target_compile_options(${name} PRIVATE -O0 $<$<NOT:$<CONFIG:Debug>>:-g0>)
  # Programs and the object that holds their precompiled headers must agree on -fPIE: neither says anything.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  if(WEFT_TEST_LINKER)
    target_link_options(${name} PRIVATE -fuse-ld=lld)
  endif()
endfunction()

# Tests that mostly wait, for deadlines or for ranks that are late, run beside others: dev gives ctest two slots per core.
set(weft_test_slots 2)
function(weft_slots_of waits)
  set(slots ${weft_test_slots} PARENT_SCOPE)
  if(waits)
    set(slots 1 PARENT_SCOPE)
  endif()
endfunction()

# weft_test(store_test LABELS comm SOURCES store_test.cc LIBS weft_comm [TIMEOUT seconds] [ONE_THREAD] [WAITS]): a GoogleTest
# program, one ctest entry. Labels select: ./dev test <label>. ThreadSanitizer has nothing to find with ONE_THREAD: it
# leaves the test out. WAITS: takes half a core.
function(weft_test name)
  cmake_parse_arguments(arg "ONE_THREAD;WAITS" "TIMEOUT" "LABELS;SOURCES;LIBS" ${ARGN})
  if(NOT WEFT_BUILD_TESTS OR (arg_ONE_THREAD AND WEFT_SANITIZE STREQUAL "thread"))
    return()
  endif()
  find_package(GTest REQUIRED)
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE weft_flags ${arg_LIBS} GTest::gmock_main)
  weft_test_flags(${name})
  weft_precompile_test(${name})
  add_test(NAME ${name} COMMAND ${name} --gtest_output=xml:${CMAKE_BINARY_DIR}/test-results/${name}.xml)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(WEFT_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 3")
  endif()
  weft_slots_of("${arg_WAITS}")
  # Constants instead of this machine's costs: the same choices everywhere, and nothing in the user's cache.
  # COST: what may take long begins first, so that the end does not wait for it; later runs go by what it took.
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT}
                                          ENVIRONMENT WEFT_TUNE=static
                                          PROCESSORS ${slots})
endfunction()

# weft_script_test(layers LABELS tidy SCRIPT layers_test.py [ARGS ...] [TIMEOUT seconds] [SERIAL] [WAITS]): a Python test,
# one ctest entry; its cases are counted from unittest's "Ran N tests".
function(weft_script_test name)
  cmake_parse_arguments(arg "SERIAL;WAITS" "TIMEOUT;SCRIPT" "LABELS;ARGS" ${ARGN})
  if(NOT WEFT_BUILD_TESTS)
    return()
  endif()
  find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
  weft_slots_of("${arg_WAITS}")
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT} ${arg_ARGS})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT} RUN_SERIAL ${arg_SERIAL}
                                          ENVIRONMENT WEFT_TUNE=static
                                          PROCESSORS ${slots})
endfunction()

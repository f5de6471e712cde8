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

include(${CMAKE_CURRENT_LIST_DIR}/tests.cmake)

# Headers that nearly every source includes, compiled once: parsing them takes a source longer than its own lines
# (figures in docs/testing.md). A source includes what it uses all the same; nightly's build with
# CMAKE_DISABLE_PRECOMPILE_HEADERS=ON finds those that do not.

set(weft_common_headers <algorithm> <array> <atomic> <cstdint> <functional> <memory> <optional> <string> <string_view>
                        <utility> <vector> <absl/status/status.h> <absl/status/statusor.h> <fmt/format.h>)

# Without it ccache does not see what a precompiled header was made of.
if(CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(weft_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()

# weft_precompile_layer(weft_comm): the layers have one set of flags, so all take what the first one, base, compiles.
function(weft_precompile_layer target)
  if(target STREQUAL "weft_base")
    target_precompile_headers(${target} PRIVATE ${weft_common_headers})
  else()
    target_precompile_headers(${target} REUSE_FROM weft_base)
  endif()
endfunction()

# weft_test_folder_headers(shard_test_headers tests/shard/ranks.h ...): what most tests of this folder include beside what
# all tests do; called before its weft_test().
function(weft_test_folder_headers name)
  set(weft_test_header_target ${name} PARENT_SCOPE)
  set(weft_test_own_headers ${ARGN} PARENT_SCOPE)
endfunction()

# weft_precompile_test(node_group_test): a test program, whose flags weft_test() sets.
function(weft_precompile_test target)
  if(NOT weft_test_header_target)
    set(weft_test_header_target weft_test_headers)
  endif()
  if(NOT TARGET ${weft_test_header_target})
    file(WRITE ${CMAKE_BINARY_DIR}/test_headers.cc "")
    add_library(${weft_test_header_target} OBJECT ${CMAKE_BINARY_DIR}/test_headers.cc)
    target_link_libraries(${weft_test_header_target} PRIVATE weft_flags weft_fmt absl::statusor GTest::gmock)
    weft_test_flags(${weft_test_header_target})
    list(TRANSFORM weft_test_own_headers PREPEND ${PROJECT_SOURCE_DIR}/)
    target_precompile_headers(${weft_test_header_target} PRIVATE ${weft_common_headers} <thread> <gmock/gmock.h>
                              <gtest/gtest.h> ${weft_test_own_headers})
    if(weft_test_own_headers)
      # GCC knows the headers that a precompiled one was made of by their times. One that ccache kept from another checkout
      # has that one's, and each of these headers would be read twice.
      set_target_properties(${weft_test_header_target} PROPERTIES CXX_COMPILER_LAUNCHER "")
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${weft_test_header_target})
endfunction()

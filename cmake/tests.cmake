# The functions that make tests: GoogleTest programs and Python scripts, each one entry of ctest.

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

# Tests that mostly wait, for deadlines or for ranks that are late, take one slot. dev gives ctest three slots per core, since the
# other tests wait as well, if less.
set(weft_test_slots 2)
function(weft_slots_of waits)
  set(slots ${weft_test_slots} PARENT_SCOPE)
  if(waits)
    set(slots 1 PARENT_SCOPE)
  endif()
endfunction()

# What ./dev asks for tests that have changed: test-sources.json, {test: [its own sources]}.
function(weft_note_sources name)
  list(TRANSFORM ARGN REPLACE "(.+)" "\"${CMAKE_CURRENT_SOURCE_DIR}/\\1\"")
  list(JOIN ARGN "," sources)
  set_property(GLOBAL APPEND PROPERTY weft_test_sources "\"${name}\":[${sources}]")
endfunction()

function(weft_write_test_sources)
  get_property(entries GLOBAL PROPERTY weft_test_sources)
  list(JOIN entries ",\n" entries)
  file(WRITE ${CMAKE_BINARY_DIR}/test-sources.json "{${entries}}\n")
endfunction()

# Whether a test shares a program with others of its folder: its one source has a namespace of its own.
function(weft_test_is_shared result sources)
  set(${result} FALSE PARENT_SCOPE)
  if(sources MATCHES "^[a-z0-9_]+_test\\.cc$")
    get_filename_component(own ${sources} NAME_WE)
    file(STRINGS ${sources} found REGEX "^namespace weft(::[a-z]+)?::${own} {$" LIMIT_COUNT 1)
    if(found)
      set(${result} TRUE PARENT_SCOPE)
    endif()
  endif()
endfunction()

# For whoever asks for a test by its name: a target that builds the program that it shares, and tests/NAME, which runs its cases.
function(weft_program_of_name name shared source)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${name}.sh)
  set(path ${CMAKE_BINARY_DIR}/tests/${name})
  file(CONFIGURE OUTPUT ${script} CONTENT "#!/bin/sh\nexec ${CMAKE_BINARY_DIR}/tests/${shared} --of=${source} \"$@\"\n")
  file(CHMOD ${script} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  # A program of its own that an earlier build left there would be run for the new one.
  if(EXISTS ${path})
    file(READ ${path} begin LIMIT 2)
    if(NOT begin STREQUAL "#!")
      file(REMOVE ${path})
    endif()
  endif()
  add_custom_command(OUTPUT ${path} COMMAND ${CMAKE_COMMAND} -E copy ${script} ${path} DEPENDS ${script} VERBATIM)
  add_custom_target(${name} DEPENDS ${path} ${shared})
endfunction()

# Adds a test's source to the program that it shares, which is made for the first one of a folder, and sets `program` to its name. It has a
# second one for those that see the library alone (weft): it and the layers' own libraries are never in one program.
function(weft_share_program name source libs)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" "_" shared ${folder}_tests)
  if("weft" IN_LIST libs)
    string(APPEND shared "_of_library")
  endif()
  if(NOT TARGET ${shared})
    add_executable(${shared})
    weft_test_program(${shared} weft_test_main)
    set_target_properties(${shared} PROPERTIES UNITY_BUILD ${WEFT_UNITY} UNITY_BUILD_BATCH_SIZE 6)
  endif()
  target_sources(${shared} PRIVATE ${source})
  target_link_libraries(${shared} PRIVATE ${libs})
  weft_program_of_name(${name} ${shared} ${source})
  set(program ${shared} PARENT_SCOPE)
endfunction()

# What test programs have in common; `main`: the library that has theirs.
function(weft_test_program name main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE weft_flags ${main})
  weft_test_flags(${name})
  weft_precompile_test(${name})
endfunction()

# weft_test(store_test LABELS comm SOURCES store_test.cc LIBS weft_comm [TIMEOUT seconds] [ONE_THREAD] [WAITS]): GoogleTest cases, one
# ctest entry. Labels select: ./dev test <label>. ThreadSanitizer has nothing to find with ONE_THREAD: it leaves the test out. WAITS: takes
# half a core.
#
# The entry has a program of its own, or shares one with others of its folder, if its source says so: its cases stand in a namespace of the
# source's name, weft::test::store_test. Then it is compiled together with some of the others, and the entry runs its own cases alone, in a
# process of its own all the same. A test that replaces functions of the whole program, such as malloc, by itself or by what it is linked
# to, or that does something before main(), such as setting an environment variable, has a program of its own, and so has one whose target
# gets definitions or whose program other entries run.
function(weft_test name)
  cmake_parse_arguments(arg "ONE_THREAD;WAITS" "TIMEOUT" "LABELS;SOURCES;LIBS" ${ARGN})
  if(NOT WEFT_BUILD_TESTS OR (arg_ONE_THREAD AND WEFT_SANITIZE STREQUAL "thread"))
    return()
  endif()
  find_package(GTest REQUIRED)
  weft_note_sources(${name} ${arg_SOURCES})
  weft_test_is_shared(shared "${arg_SOURCES}")
  if(shared)
    weft_share_program(${name} ${arg_SOURCES} "${arg_LIBS}")
    set(command ${program} --of=${arg_SOURCES})
  else()
    add_executable(${name} ${arg_SOURCES})
    weft_test_program(${name} GTest::gmock_main)
    target_link_libraries(${name} PRIVATE ${arg_LIBS})
    set(command ${name})
  endif()
  add_test(NAME ${name} COMMAND ${command} --gtest_output=xml:${CMAKE_BINARY_DIR}/test-results/${name}.xml)
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
  weft_note_sources(${name} ${arg_SCRIPT})
  weft_slots_of("${arg_WAITS}")
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT} ${arg_ARGS})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT} RUN_SERIAL ${arg_SERIAL}
                                          ENVIRONMENT WEFT_TUNE=static
                                          PROCESSORS ${slots})
endfunction()

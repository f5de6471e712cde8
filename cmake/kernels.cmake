# weft_kernels(weft_comm SOURCES reduce_float.cc ... [LIBS ...] [FLAGS ...] [BF16]): compiles each source
# once for every instruction set, and adds the objects to the library. BF16: once more for AVX-512 with its
# products of bfloat16. WEFT_KERNEL_ISA is the enumerator of Isa that a source is being compiled for; the
# target of the objects of one set is weft_comm_scalar, weft_comm_avx2, weft_comm_avx512 or
# weft_comm_avx512bf16.
#
# -mfma is safe where multiply-adds are written out, as they are but in the trainer: -ffp-contract=off holds (weft.cmake).
# No precompiled header and no unity: an inline function of a heavy header, compiled for AVX, would run on CPUs without it.
# The warnings: GCC has not heard of -Wno-unknown-warning-option, nor of -Wno-unneeded-internal-declaration (not every source
# needs all functions of its headers), and says nothing; clang has not heard of -Wmaybe-uninitialized. The waiting trees of Grove
# (comm/kernels/reduce_tree.h) are always written before they are read; GCC cannot know. GCC 12's own AVX-512 intrinsics use a
# vector before it is set (GCC bug 105593).
set(weft_kernel_isas Scalar)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND weft_kernel_isas Avx2 Avx512)
endif()
set(weft_flags_of_Scalar)
set(weft_flags_of_Avx2 -mavx2 -mf16c -mfma)
set(weft_flags_of_Avx512 ${weft_flags_of_Avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq)
set(weft_flags_of_Avx512Bf16 ${weft_flags_of_Avx512} -mavx512bf16)
# GCC's AddressSanitizer, looking for use after return, puts vectors of 64 bytes where they are not aligned.
if(WEFT_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND weft_flags_of_Avx512 --param=asan-use-after-return=0)
  list(APPEND weft_flags_of_Avx512Bf16 --param=asan-use-after-return=0)
endif()

function(weft_kernels target)
  cmake_parse_arguments(arg "BF16" "" "SOURCES;LIBS;FLAGS" ${ARGN})
  # Of the sources, as what targets have comes before weft_flags and would lose.
  set(options -Wno-unknown-warning-option -Wno-unneeded-internal-declaration -Wno-maybe-uninitialized -Wno-uninitialized
              -Wno-psabi ${arg_FLAGS})
  set_source_files_properties(${arg_SOURCES} PROPERTIES COMPILE_OPTIONS "${options}")
  set(isas ${weft_kernel_isas})
  if(arg_BF16 AND "Avx512" IN_LIST isas)
    list(APPEND isas Avx512Bf16)
  endif()
  foreach(isa IN LISTS isas)
    string(TOLOWER "${target}_${isa}" objects)
    add_library(${objects} OBJECT ${arg_SOURCES})
    set_target_properties(${objects} PROPERTIES UNITY_BUILD OFF)
    target_link_libraries(${objects} PRIVATE weft_flags ${arg_LIBS})
    target_compile_definitions(${objects} PRIVATE WEFT_KERNEL_ISA=k${isa})
    target_compile_options(${objects} PRIVATE ${weft_flags_of_${isa}})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${objects}>)
  endforeach()
endfunction()

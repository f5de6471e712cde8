# weft_cuda_kernels(FOLDER_NAME SOURCES a.cu ...): compiles kernels for GPUs into libweft_cuda.so, an image per source, which host code
# loads through the driver. nvcc is called by itself, as kernels are all that it compiles: host code needs neither it nor CUDA's headers.
#
# An image has machine code for each of WEFT_CUDA_ARCHITECTURES, and PTX of the newest one for GPUs to come. --fmad=false: multiply-adds are
# fused where the source says so, as on the CPU (-ffp-contract=off), because the bits of a sum are a contract. What ptxas reports of registers
# and spills stays beside the image, for tests/device/cuda_kernels_test.py, and the PTX and machine code that the image is made of, for
# tests/device/machine_code_test.py.
find_program(WEFT_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
set(weft_nvcc_version 0)
if(WEFT_NVCC)
  execute_process(COMMAND ${WEFT_NVCC} --version OUTPUT_VARIABLE weft_nvcc_says ERROR_QUIET)
  if(weft_nvcc_says MATCHES "release ([0-9]+[.][0-9]+)")
    set(weft_nvcc_version ${CMAKE_MATCH_1})
  endif()
endif()
# The first that compresses images, and knows the newest of the GPUs below.
set(weft_with_cuda OFF)
if(weft_nvcc_version VERSION_GREATER_EQUAL 12.8 AND NOT WEFT_SANITIZE)
  set(weft_with_cuda ON)
endif()
option(WEFT_WITH_CUDA "Build the module for CUDA (needs nvcc 12.8)" ${weft_with_cuda})
set(WEFT_CUDA_ARCHITECTURES 80 90 100 120 CACHE STRING "GPUs that kernels are compiled for")
if(WEFT_WITH_CUDA AND weft_nvcc_version VERSION_LESS 12.8)
  message(FATAL_ERROR "nvcc 12.8 or later was not found (CUDA_HOME, PATH, /usr/local/cuda/bin; version ${weft_nvcc_version}). Without it: -DWEFT_WITH_CUDA=OFF; weft then has no kernels for GPUs.")
endif()

function(weft_cuda_kernels name)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  if(NOT WEFT_WITH_CUDA)
    return()
  endif()
  set(codes)
  foreach(architecture IN LISTS WEFT_CUDA_ARCHITECTURES)
    list(APPEND codes -gencode arch=compute_${architecture},code=sm_${architecture})
    set(newest ${architecture})
  endforeach()
  list(APPEND codes -gencode arch=compute_${newest},code=compute_${newest})
  set(embedded)
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(GET source STEM stem)
    set(image ${CMAKE_BINARY_DIR}/cuda/${stem}.fatbin)
    set(report ${CMAKE_BINARY_DIR}/cuda/${stem}.ptxas)
    set(parts ${CMAKE_BINARY_DIR}/cuda/${stem})
    add_custom_command(OUTPUT ${image} ${report}
      COMMAND ${CMAKE_COMMAND} -E rm -rf ${parts}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${parts}
      # Its report is all that it prints: that of every kernel, and warnings.
      COMMAND sh -c "\"$@\" > ${report} 2>&1 || { cat ${report} >&2; exit 1; }" nvcc
              ${WEFT_NVCC} -fatbin -std=c++20 --fmad=false --expt-relaxed-constexpr --compress-mode=size -Xptxas -v
              -Werror all-warnings -ccbin ${CMAKE_CXX_COMPILER} -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include ${codes}
              -MD -MF ${image}.d --keep --keep-dir ${parts} -o ${image} ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      COMMAND find ${parts} -type f ! -name *.ptx ! -name *.cubin -delete
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${image}.d VERBATIM COMMENT "Compiling kernels of ${source} for GPUs")
    set(weft_image_name ${stem})
    set(weft_image_file ${image})
    configure_file(${PROJECT_SOURCE_DIR}/cmake/cuda_image.c.in ${CMAKE_CURRENT_BINARY_DIR}/${stem}_image.c @ONLY)
    set_source_files_properties(${CMAKE_CURRENT_BINARY_DIR}/${stem}_image.c PROPERTIES OBJECT_DEPENDS ${image})
    list(APPEND embedded ${CMAKE_CURRENT_BINARY_DIR}/${stem}_image.c)
  endforeach()
  add_library(${name} OBJECT ${embedded})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
  target_sources(weft_cuda PRIVATE $<TARGET_OBJECTS:${name}>)
endfunction()

# Links Abseil statically, so that libweft.so needs nothing that a user's machine may have in another version.
#
# Debian's package files name the shared libraries; the archives lie beside them. They are compiled for executables
# (-fPIE), which a shared library can contain under two conditions that weft_embed_absl() arranges: libstdc++ is static
# too, because such code refers to libstdc++'s data directly, and two of Abseil's objects are replaced
# (absl_position_independent.cc). That file follows the interface of 20220623, the version of Debian 12 and Ubuntu
# 24.04; with any other, and in sanitizer builds, Abseil stays shared.

set(WEFT_STATIC_ABSL OFF)
if(absl_VERSION VERSION_EQUAL 20220623 AND NOT WEFT_SANITIZE)
  set(WEFT_STATIC_ABSL ON)
endif()
message(STATUS "Abseil ${absl_VERSION}, linked statically: ${WEFT_STATIC_ABSL}")

# weft_embed_absl(weft): what the link of a shared library with Abseil's archives needs.
function(weft_embed_absl target)
  if(WEFT_STATIC_ABSL)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/absl_position_independent.cc)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/cmake/absl_position_independent.cc TARGET_DIRECTORY ${target}
                                PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    target_link_options(${target} PRIVATE -static-libstdc++)
  endif()
endfunction()

if(NOT WEFT_STATIC_ABSL)
  return()
endif()
get_directory_property(weft_imported IMPORTED_TARGETS)
foreach(target IN LISTS weft_imported)
  get_target_property(type ${target} TYPE)
  if(NOT target MATCHES "^absl::" OR NOT type STREQUAL "SHARED_LIBRARY")
    continue()
  endif()
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  foreach(configuration IN LISTS configurations)
    get_target_property(location ${target} IMPORTED_LOCATION_${configuration})
    string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${location}")
    if(EXISTS ${archive})
      set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} ${archive}
                                                 IMPORTED_SONAME_${configuration} "")
    endif()
  endforeach()
endforeach()

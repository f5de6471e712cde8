# What `cmake --install build/release --prefix DIR` puts where: headers, libweft.so, libweft.a, the programs, weft.pc,
# weftConfig.cmake and the examples. All of it finds its parts relative to itself, so DIR may be moved.

if(NOT TARGET weft)
  return()
endif()
include(CMakePackageConfigHelpers)
weft_embed_absl(weft)

# weft_static_closure(archives target): the archives that `target` needs, its own first.
function(weft_static_closure result)
  set(queue ${ARGN})
  set(seen)
  set(archives)
  while(queue)
    list(POP_FRONT queue item)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
    if(item IN_LIST seen OR NOT TARGET "${item}")
      continue()
    endif()
    list(APPEND seen ${item})
    get_target_property(type ${item} TYPE)
    get_target_property(imported ${item} IMPORTED)
    if(type STREQUAL "STATIC_LIBRARY" OR item MATCHES "^absl::" AND NOT type STREQUAL "INTERFACE_LIBRARY")
      list(APPEND archives $<TARGET_FILE:${item}>)
    endif()
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      if(imported AND property STREQUAL "LINK_LIBRARIES")
        continue()
      endif()
      get_target_property(needed ${item} ${property})
      if(needed)
        list(APPEND queue ${needed})
      endif()
    endforeach()
  endwhile()
  set(${result} ${archives} PARENT_SCOPE)
endfunction()

# libweft.a is one object whose only global names are weft_*: a program may hold its own Abseil beside it. Group
# sections are resolved first (--force-group-allocation), because the final link must not drop one half of them, and common
# symbols, of which libcrypto has one, get their place (-d), because they could not be made local otherwise.
if(WEFT_STATIC_ABSL)
  set(weft_layers)
  foreach(layer weft_shard weft_comm weft_topology weft_base)
    if(TARGET ${layer})
      list(APPEND weft_layers ${layer})
    endif()
  endforeach()
  weft_static_closure(weft_archives ${weft_layers})
  set(weft_object ${CMAKE_BINARY_DIR}/weft_static.o)
  set(weft_archive ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}/libweft.a)
  add_custom_command(
    OUTPUT ${weft_archive}
    COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -o ${weft_object} -Wl,--force-group-allocation -Wl,-d
            $<FILTER:$<TARGET_OBJECTS:weft>,EXCLUDE,gch$> -Wl,--start-group ${weft_archives} -Wl,--end-group
    COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol "weft_*" ${weft_object}
    COMMAND ${CMAKE_COMMAND} -E rm -f ${weft_archive}
    COMMAND ${CMAKE_AR} rcs ${weft_archive} ${weft_object}
    DEPENDS weft ${weft_layers} $<FILTER:$<TARGET_OBJECTS:weft>,EXCLUDE,gch$>
    COMMAND_EXPAND_LISTS VERBATIM COMMENT "Linking libweft.a")
  add_custom_target(weft_static ALL DEPENDS ${weft_archive})
  install(FILES ${weft_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
  # `cmake --install --strip` knows of targets only, and an archive must keep the names that a linker looks for.
  install(CODE "
    if(CMAKE_INSTALL_DO_STRIP)
      set(archive \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libweft.a\")
      execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug \"\${archive}\" COMMAND_ERROR_IS_FATAL ANY)
    endif()")
endif()

install(TARGETS weft LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Found by libweft.so beside itself.
foreach(module weft_cuda weft_ucx weft_uring)
  if(TARGET ${module})
    install(TARGETS ${module} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
foreach(program weftrun weftctl weft_perf weft_train)
  if(TARGET ${program})
    # The build tree's library directory gives way to the installed one.
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(weft_generated ${CMAKE_BINARY_DIR}/package)
file(RELATIVE_PATH weft_pc_to_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
configure_file(${CMAKE_CURRENT_LIST_DIR}/weft.pc.in ${weft_generated}/weft.pc @ONLY)
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/weftConfig.cmake.in ${weft_generated}/weftConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${weft_generated}/weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${weft_generated}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${weft_generated}/weftConfig.cmake ${weft_generated}/weftConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)

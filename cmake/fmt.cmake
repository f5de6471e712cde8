# weft_fmt: fmt with its fixed part compiled once, inside weft. See fmt_definitions.cc.
add_library(weft_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt_definitions.cc)
get_target_property(weft_fmt_headers fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(weft_fmt SYSTEM PUBLIC ${weft_fmt_headers})
target_link_libraries(weft_fmt PRIVATE weft_flags)

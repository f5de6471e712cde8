# SHA-256 for the handshakes, from libcrypto's archive: a link takes five of its objects, 25 KB, and does not show them. So
# libweft.so loads where there is no libcrypto, or another one, and meets none that the program or another library has.

find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_library(WEFT_LIBCRYPTO_ARCHIVE NAMES libcrypto.a)
if(NOT WEFT_LIBCRYPTO_ARCHIVE)
  message(FATAL_ERROR "libcrypto.a was not found: it stands beside OpenSSL's headers (Debian's libssl-dev). If it is "
                      "elsewhere, pass -DWEFT_LIBCRYPTO_ARCHIVE=/path/to/libcrypto.a")
endif()
add_library(weft_libcrypto STATIC IMPORTED GLOBAL)
set_target_properties(weft_libcrypto PROPERTIES
  IMPORTED_LOCATION ${WEFT_LIBCRYPTO_ARCHIVE}
  INTERFACE_INCLUDE_DIRECTORIES "${OPENSSL_INCLUDE_DIR}")

// The three primitives of weft's handshakes, from OpenSSL: HMAC-SHA256, HKDF-SHA256, comparison in
// constant time.
//
// Thread-safety: pure functions, but for the last one.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace weft {

constexpr size_t kKeyBytes = 32;

// HMAC-SHA256: 32 bytes. SYSTEM_ERROR if libcrypto refuses (a broken installation).
absl::StatusOr<std::string> KeyedHash(std::string_view key, std::string_view data);

// HKDF-SHA256: a key of 32 bytes for one purpose, which `info` names.
absl::StatusOr<std::string> DeriveKey(std::string_view secret, std::string_view salt,
                                      std::string_view info);

// True if equal; takes the same time wherever they differ.
bool SameProof(std::string_view a, std::string_view b);

// A process-independent name: the first `bytes` bytes of HMAC-SHA256(key, data) in hexadecimal.
absl::StatusOr<std::string> HashName(std::string_view key, std::string_view data, size_t bytes);

// Frees what libcrypto keeps for the calling thread, as the thread's end does unless the process ends
// first; the functions above may be called again.
void FreeHashesOfThread();

}  // namespace weft

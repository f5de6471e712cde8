// The three primitives of weft's handshakes: HMAC-SHA256, HKDF-SHA256, comparison in constant time; and names
// made by the first of them.
//
// Thread-safety: pure functions. They take no lock (base/sha256.h), so a forked child may call them
// whatever the parent's other threads were doing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

constexpr size_t kKeyBytes = 32;

// HMAC-SHA256: 32 bytes.
std::string KeyedHash(std::string_view key, std::string_view data);

// HKDF-SHA256: a key of 32 bytes for one purpose, which `info` names.
std::string DeriveKey(std::string_view secret, std::string_view salt, std::string_view info);

// True if equal; takes the same time wherever they differ.
bool SameProof(std::string_view a, std::string_view b);

inline constexpr size_t kNameHashBytes = 9;  // 18 letters: such a name fits into a unique id

// A process-independent name: the first `bytes` bytes of HMAC-SHA256(key, data) in hexadecimal.
std::string HashName(std::string_view key, std::string_view data, size_t bytes);

}  // namespace weft

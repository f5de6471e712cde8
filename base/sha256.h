// SHA-256 that takes no lock, allocates nothing and cannot fail.
//
//   Sha256 hash;
//   hash.Update(a.data(), a.size());
//   hash.Update(b.data(), b.size());
//   const Sha256::Digest digest = hash.Finish();
//
// Why not EVP: it looks algorithms up under locks of the process, and a child that is forked while
// another thread is in there has these locks held for good. Ranks are forked beside the thread that
// serves their store, and must be able to prove themselves to it.
//
// Thread-safety: an object belongs to one thread. A value: copies go on by themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

class Sha256 {
 public:
  static constexpr size_t kBlockBytes = 64;
  static constexpr size_t kDigestBytes = 32;
  using Digest = std::array<uint8_t, kDigestBytes>;

  Sha256();

  void Update(const void* data, size_t bytes);

  void Update(std::string_view text) { Update(text.data(), text.size()); }

  // Ends the hash; the object is of no use afterwards.
  Digest Finish();

 private:
  static constexpr size_t kStateBytes = 112;
  alignas(8) std::array<std::byte, kStateBytes> state_;  // libcrypto's
};

}  // namespace weft

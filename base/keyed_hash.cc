#include "base/keyed_hash.h"

#include <algorithm>
#include <array>

#include <openssl/crypto.h>

#include "absl/strings/escaping.h"
#include "base/sha256.h"
#include "base/text.h"

namespace weft {
namespace {

static_assert(kKeyBytes == Sha256::kDigestBytes);

std::string TextOf(const Sha256::Digest& digest) {
  return std::string(digest.begin(), digest.end());
}

// A key as HMAC takes it: padded with zeros to a block, each byte combined with `mask`.
using KeyBlock = std::array<uint8_t, Sha256::kBlockBytes>;

KeyBlock Masked(const KeyBlock& key, uint8_t mask) {
  KeyBlock masked;
  std::transform(key.begin(), key.end(), masked.begin(),
                 [mask](uint8_t byte) { return static_cast<uint8_t>(byte ^ mask); });
  return masked;
}

KeyBlock BlockOf(std::string_view key) {
  KeyBlock block = {};
  if (key.size() <= block.size()) {
    std::copy(key.begin(), key.end(), block.begin());
    return block;
  }
  Sha256 hash;
  hash.Update(key);
  const Sha256::Digest digest = hash.Finish();
  std::copy(digest.begin(), digest.end(), block.begin());
  return block;
}

}  // namespace

// RFC 2104.
std::string KeyedHash(std::string_view key, std::string_view data) {
  const KeyBlock block = BlockOf(key);
  const KeyBlock inner_key = Masked(block, 0x36);
  const KeyBlock outer_key = Masked(block, 0x5c);
  Sha256 inner;
  inner.Update(inner_key.data(), inner_key.size());
  inner.Update(data);
  const Sha256::Digest digest = inner.Finish();
  Sha256 outer;
  outer.Update(outer_key.data(), outer_key.size());
  outer.Update(digest.data(), digest.size());
  return TextOf(outer.Finish());
}

// RFC 5869, for one block of output.
std::string DeriveKey(std::string_view secret, std::string_view salt, std::string_view info) {
  // Without a secret there is nothing to protect and a constant does.
  const std::string_view key = secret.empty() ? std::string_view("no secret") : secret;
  return KeyedHash(KeyedHash(salt, key), StrCat(info, std::string_view("\x01", 1)));
}

bool SameProof(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string HashName(std::string_view key, std::string_view data, size_t bytes) {
  const std::string hash = KeyedHash(key, data);
  return absl::BytesToHexString(absl::string_view(hash.data(), bytes));
}

}  // namespace weft

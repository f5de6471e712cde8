// The functions below EVP, which are deprecated for their lack of what makes EVP unfit here.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/sha256.h"

#include <new>
#include <type_traits>

#include <openssl/sha.h>

namespace weft {
namespace {

static_assert(std::is_trivially_copyable_v<SHA256_CTX>);

SHA256_CTX* ContextIn(void* state) {
  return std::launder(static_cast<SHA256_CTX*>(state));
}

}  // namespace

Sha256::Sha256() {
  static_assert(sizeof(SHA256_CTX) <= kStateBytes && alignof(SHA256_CTX) <= 8);
  static_assert(SHA256_CBLOCK == kBlockBytes && SHA256_DIGEST_LENGTH == kDigestBytes);
  SHA256_Init(new (state_.data()) SHA256_CTX);
}

void Sha256::Update(const void* data, size_t bytes) {
  SHA256_Update(ContextIn(state_.data()), data, bytes);
}

Sha256::Digest Sha256::Finish() {
  Digest digest;
  SHA256_Final(digest.data(), ContextIn(state_.data()));
  return digest;
}

}  // namespace weft

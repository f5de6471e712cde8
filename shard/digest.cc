#include "shard/digest.h"

#include <cstring>

#include <openssl/evp.h>

#include "base/check.h"

namespace weft {

struct Hasher::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  ~State() { EVP_MD_CTX_free(context); }
};

// The calls below fail only when a few hundred bytes cannot be had or libcrypto is broken.
Hasher::Hasher() : state_(std::make_unique<State>()) {
  WEFT_CHECK(state_->context != nullptr);
  WEFT_CHECK(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Hasher::~Hasher() = default;

void Hasher::Update(const void* data, size_t bytes) {
  WEFT_CHECK(EVP_DigestUpdate(state_->context, data, bytes) == 1);
}

Digest Hasher::Finish() {
  uint8_t full[EVP_MAX_MD_SIZE];
  unsigned int full_bytes = 0;
  WEFT_CHECK(EVP_DigestFinal_ex(state_->context, full, &full_bytes) == 1);
  Digest digest;
  WEFT_CHECK(full_bytes >= digest.bytes.size());
  std::memcpy(digest.bytes.data(), full, digest.bytes.size());
  return digest;
}

Digest DigestOf(const void* data, size_t bytes) {
  Hasher hasher;
  hasher.Update(data, bytes);
  return hasher.Finish();
}

}  // namespace weft

#include "shard/checks/digest.h"

#include <algorithm>

#include "base/sha256.h"

namespace weft {

struct Hasher::State {
  Sha256 hash;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}

Hasher::~Hasher() = default;

void Hasher::Update(const void* data, size_t bytes) {
  state_->hash.Update(data, bytes);
}

Digest Hasher::Finish() {
  const Sha256::Digest full = state_->hash.Finish();
  Digest digest;
  std::copy_n(full.begin(), digest.bytes.size(), digest.bytes.begin());
  return digest;
}

Digest DigestOf(const void* data, size_t bytes) {
  Hasher hasher;
  hasher.Update(data, bytes);
  return hasher.Finish();
}

}  // namespace weft

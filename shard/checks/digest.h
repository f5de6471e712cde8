// A 128-bit digest: SHA-256, cut.
//
//   Digest digest = DigestOf(text.data(), text.size());
//   Hasher hasher; hasher.Update(a, n); hasher.Update(b, m); Digest both = hasher.Finish();
//
// Thread-safety: a Hasher belongs to one thread; DigestOf from any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace weft {

struct Digest {
  std::array<uint8_t, 16> bytes = {};
  bool operator==(const Digest&) const = default;
};

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void Update(const void* data, size_t bytes);
  // Ends the hash; the hasher is of no use afterwards.
  Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Digest DigestOf(const void* data, size_t bytes);

}  // namespace weft

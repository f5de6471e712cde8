// What has been made of short pieces: text repeats its words, so nearly all of them are found here,
// without a merge.
//
//   if (const auto found = cache.Find(key)) ... else { ...; cache.Keep(key, tokens); }
//
// A table of fixed size in which a piece has one place: what comes later takes it. A place fills a
// cache line.
//
// Thread-safety: one thread.
#ifndef WEFT_TRAINER_TOKENIZER_PIECE_CACHE_H_
#define WEFT_TRAINER_TOKENIZER_PIECE_CACHE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/random.h"
#include "trainer/tokenizer/token.h"

namespace weft::trainer {

class PieceCache {
 public:
  static constexpr size_t kPieceBytesMax = 16, kTokensMax = 11;

  // The bytes of a piece of 1 to 16 bytes, and how many.
  struct Key {
    uint64_t low, high;
    uint16_t bytes;
  };

  static Key KeyOf(std::string_view piece) {
    Key key{0, 0, uint16_t(piece.size())};
    const char* text = piece.data();
    const size_t bytes = piece.size();
    // Loads of fixed size, which overlap: with the length they say all bytes.
    if (bytes >= 8) {
      std::memcpy(&key.low, text, 8);
      std::memcpy(&key.high, text + bytes - 8, 8);
    } else if (bytes >= 4) {
      std::memcpy(&key.low, text, 4);
      std::memcpy(&key.high, text + bytes - 4, 4);
    } else {
      key.low = static_cast<unsigned char>(text[0]);
      key.high = uint64_t{static_cast<unsigned char>(text[bytes / 2])} << 8 |
                 static_cast<unsigned char>(text[bytes - 1]);
    }
    return key;
  }

  // Empty if the piece is not here.
  std::span<const Token> Find(const Key& key) const {
    const Place& place = places_[IndexOf(key)];
    if (place.low != key.low || place.high != key.high || place.bytes != key.bytes) return {};
    return {place.tokens.data(), place.count};
  }

  void Keep(const Key& key, std::span<const Token> tokens) {
    if (tokens.size() > kTokensMax) return;
    Place& place = places_[IndexOf(key)];
    place.low = key.low;
    place.high = key.high;
    place.bytes = key.bytes;
    place.count = uint16_t(tokens.size());
    std::copy(tokens.begin(), tokens.end(), place.tokens.begin());
  }

 private:
  static constexpr size_t kPlaces = 1 << 15;  // 2 MB

  struct Place {
    uint64_t low = 0, high = 0;
    uint16_t bytes = 0, count = 0;  // no piece has 0 bytes
    std::array<Token, kTokensMax> tokens{};
  };

  static_assert(sizeof(Place) == 64);

  static size_t IndexOf(const Key& key) {
    return (key.low * 0x9e3779b97f4a7c15u ^ Mix(key.high + key.bytes)) >> 20 & (kPlaces - 1);
  }

  std::vector<Place> places_ = std::vector<Place>(kPlaces);
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_PIECE_CACHE_H_

// How often two tokens are neighbours in the pieces of a text, kept true while pairs are merged.
//
//   PairCounts pairs(counts, tokens_of_bytes);
//   while (auto pair = pairs.TakeMostFrequent(2)) pairs.MergeTaken(new_token);
//
// Each pair knows the places where it began, so a merge costs as much as the pair is frequent, and
// all of them together cost n log n for n bytes of different pieces, however long one piece is.
// Places are struck out when they are looked at, not when a neighbour changes.
//
// Thread-safety: one thread.
#ifndef WEFT_TRAINER_TOKENIZER_PAIR_COUNTS_H_
#define WEFT_TRAINER_TOKENIZER_PAIR_COUNTS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "trainer/tokenizer/bpe_trainer.h"
#include "trainer/tokenizer/token.h"

namespace weft::trainer {

class PairCounts {
 public:
  struct Pair {
    Token left, right;
  };

  // BadInput for pieces of 4 GiB together.
  PairCounts(const PieceCounts& pieces, const std::array<Token, 256>& token_of_byte);

  // The most frequent pair, of several the one of the lowest tokens, left one first; it is not
  // counted any more. Nullopt if none is there `count_min` times.
  std::optional<Pair> TakeMostFrequent(uint64_t count_min);

  // Makes the pair that was taken last one token, in each piece from left to right. `product` is a
  // token that no piece has yet.
  void MergeTaken(Token product);

 private:
  using Key = uint64_t;  // left << 32 | right: orders as pairs do

  struct Symbol {
    Token token;
    // kNoSymbol at the ends of a piece; next is kMerged of one that became part of the one before.
    uint32_t previous, next;
    uint32_t piece;
  };

  struct Places {
    int64_t count = 0;            // over all pieces, as often as they are there
    std::vector<uint32_t> begin;  // symbols, ascending: where the pair is or was
  };

  struct Frequency {
    int64_t count;
    Key pair;

    bool operator<(const Frequency& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  static Key KeyOf(Token left, Token right) { return Key{left} << 32 | right; }

  void AddPiece(const std::string& piece, uint64_t count,
                const std::array<Token, 256>& token_of_byte);
  void Remove(Token left, Token right, int64_t count);
  void Insert(uint32_t at, int64_t count);

  std::vector<Symbol> symbols_;
  std::vector<int64_t> piece_counts_;
  absl::flat_hash_map<Key, Places> pairs_;
  std::priority_queue<Frequency>
      most_frequent_;  // may be too high for pairs that have become rarer
  Pair taken_{};
  std::vector<uint32_t> taken_places_;
  std::vector<Key> new_pairs_;  // of the merge under way
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_PAIR_COUNTS_H_

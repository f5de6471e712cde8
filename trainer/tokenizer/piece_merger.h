// Byte pair encoding of one piece: of all pairs of neighbours that a merge makes one, the one of
// the lowest rank, of several the leftmost, becomes one, until none is left.
//
//   PieceMerger merger;
//   std::vector<Token> tokens = {h, e, l, l, o};
//   merger.Merge(table, 0, &tokens);       // {hello}
//
// n log n for n tokens, because a megabyte without a space is a piece, too.
//
// Where several pairs make the same token (vocabularies of tiktoken list each), the order is the
// tokenizers package's to the letter: a pair that waits is merged at its turn even if the
// neighbours have become another pair, if that one makes the same token.
//
// Thread-safety: one thread; it keeps its memory for the next piece.
#ifndef WEFT_TRAINER_TOKENIZER_PIECE_MERGER_H_
#define WEFT_TRAINER_TOKENIZER_PIECE_MERGER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/tokenizer/merge_table.h"
#include "trainer/tokenizer/token.h"

namespace weft::trainer {

class PieceMerger {
 public:
  // Replaces the tokens from `begin` on, one of each byte, with what they become. BadInput for 4 Gi
  // of them.
  void Merge(const MergeTable& table, size_t begin, std::vector<Token>* tokens);

 private:
  struct Symbol {
    Token token;
    // kNone at the ends; next is kGone of one that became part of the symbol before it.
    uint32_t previous, next;
  };

  struct Waiting {
    uint32_t rank;
    uint32_t at;  // the left one of two symbols
    Token product;

    // std::push_heap keeps the greatest in front.
    bool operator<(const Waiting& other) const {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };

  void Wait(const MergeTable& table, uint32_t left);

  std::vector<Symbol> symbols_;
  std::vector<Waiting> waiting_;  // a heap
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_PIECE_MERGER_H_

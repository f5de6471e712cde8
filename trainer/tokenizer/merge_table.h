// What two tokens side by side become, and how early: the merges of a vocabulary by their pairs.
//
// Thread-safety: constant once it is filled.
#ifndef WEFT_TRAINER_TOKENIZER_MERGE_TABLE_H_
#define WEFT_TRAINER_TOKENIZER_MERGE_TABLE_H_

#include <cstddef>
#include <cstdint>

#include <absl/container/flat_hash_map.h>

#include "trainer/tokenizer/token.h"

namespace weft::trainer {

class MergeTable {
 public:
  struct Result {
    uint32_t rank;  // the lowest one is merged first
    Token product;
  };

  void Reserve(size_t merges) { results_.reserve(merges); }

  // The next rank.
  void Add(Token left, Token right, Token product) {
    results_.emplace(Key(left, right), Result{uint32_t(results_.size()), product});
  }

  // Null if the two stay apart.
  const Result* Find(Token left, Token right) const {
    const auto found = results_.find(Key(left, right));
    return found == results_.end() ? nullptr : &found->second;
  }

 private:
  static uint64_t Key(Token left, Token right) { return uint64_t{left} << 32 | right; }

  absl::flat_hash_map<uint64_t, Result> results_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_MERGE_TABLE_H_

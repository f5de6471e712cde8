// Windows of a text side by side, as a model takes them: each token's target is the one after it.
//
//   WindowBatch batch(seq, 4);
//   batch.Fill(text, {0, 512, 1024});
//   model.Score(batch.inputs(), batch.targets(), 3, skip, activations);
//
// Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_WINDOW_BATCH_H_
#define WEFT_TRAINER_WINDOW_BATCH_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "trainer/data/token_text.h"
#include "trainer/tokenizer/token.h"

namespace weft::trainer {

class WindowBatch {
 public:
  // `count`: windows at most.
  WindowBatch(size_t seq, size_t count)
      : seq_(seq), inputs_(seq * count), targets_(seq * count), window_(seq + 1) {}

  // Tokens that a window takes, its last target included.
  size_t window_tokens() const { return window_.size(); }

  // The windows that begin at the offsets come first; what is left stays as it was.
  void Fill(const TokenText& text, const std::vector<size_t>& offsets) {
    for (size_t i = 0; i < offsets.size(); i++) {
      text.Read(offsets[i], window_);
      std::copy_n(window_.begin(), seq_, inputs_.begin() + long(i * seq_));
      std::copy_n(window_.begin() + 1, seq_, targets_.begin() + long(i * seq_));
    }
  }

  // [count, seq]
  const Token* inputs() const { return inputs_.data(); }

  const Token* targets() const { return targets_.data(); }

 private:
  const size_t seq_;
  std::vector<Token> inputs_, targets_, window_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_WINDOW_BATCH_H_

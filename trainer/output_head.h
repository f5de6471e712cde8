// The output head and the loss: logits, cross-entropy and their gradients in tiles of rows, so that
// logits of all tokens are never in memory at once. A tile's gradients are taken while its logits
// are in the cache (as in Liger-Kernel's fused linear cross-entropy, Hsu et al. 2024). Tiles of
// rows read and add to the gradient of the whole matrix once each, which costs less than the second
// product that tiles of the vocabulary need; docs/perf/trainer.md has the sketch.
//
//   OutputHead<float> head(config, batch, matmul);
//   double loss = head.Backward(weight, hidden, targets, rows, scale, weight_gradient, hidden_gradient);
//
// Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_OUTPUT_HEAD_H_
#define WEFT_TRAINER_OUTPUT_HEAD_H_

#include <cstddef>
#include <vector>

#include "trainer/aligned_vector.h"
#include "trainer/matmul.h"
#include "trainer/model_units.h"
#include "trainer/ops.h"
#include "trainer/tokenizer/token.h"

namespace weft::trainer {

// Rows of a tile.
constexpr size_t kHeadTileRows = 512;

template <typename T>
class OutputHead {
 public:
  // `batch` is the largest count of sequences.
  OutputHead(const ModelConfig& config, size_t batch, Matmul<T>& matmul);

  // Of one row of `hidden`; valid until the next call. [padded_vocabulary]
  const T* Logits(Numbers weight, Numbers hidden);
  // The sum of -log p(target) over the rows. weight is [padded_vocabulary, width], hidden [rows,
  // width].
  double Loss(Numbers weight, Numbers hidden, const Token* targets, size_t rows);
  // As Loss; a token's loss has the weight `scale` in the gradients. weight_gradient is added to,
  // hidden_gradient overwritten.
  double Backward(Numbers weight, Numbers hidden, const Token* targets, size_t rows, double scale,
                  WeightGradient<T> weight_gradient, T* hidden_gradient);

 private:
  const ModelConfig config_;
  Matmul<T>& matmul_;
  const Ops<T>& ops_;
  AlignedVector<T> tile_;
};

size_t HeadTileCount(const ModelConfig& config, size_t batch);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OUTPUT_HEAD_H_

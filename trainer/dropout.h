// Which numbers dropout leaves out: a function of the seed, the step, the layer, the place within it and the global element, never of
// how much was drawn before. So the masks are the same for any number of ranks, any micro-batches, any strategy, and for what
// backward computes again.
//
//   const Dropout dropout(0.1, seed, step, first_sequence);     // of one micro-batch
//   ops.dropout(x, x, rows, columns, dropout.At(layer, DropoutSite::kMlp, seq));
//
// Thread-safety: values.
#ifndef WEFT_TRAINER_DROPOUT_H_
#define WEFT_TRAINER_DROPOUT_H_

#include <cstddef>
#include <cstdint>

namespace weft::trainer {

// For the kernels: element `column` of row r has the bits [16 * (column % 4), ...) of Mix(Mix(key ^ Mix(first_row + r)) +
// column / 4) and is left out if they are below the threshold (Mix: random.h). What is kept is divided by the share that is.
struct DropoutMask {
  uint64_t key = 0;
  uint64_t first_row = 0;
  uint32_t threshold = 0;  // of 65,536; 0: nothing is left out
};

// Where GPT-2 has dropout: the sum of the embeddings, the probabilities of attention, and both outputs of a block.
enum class DropoutSite { kEmbedding, kAttention, kProjection, kMlp };

class Dropout {
 public:
  // Nothing is left out.
  Dropout() = default;
  // `first_sequence`: of the micro-batch within the step's batch.
  Dropout(double probability, uint64_t seed, size_t step, size_t first_sequence);

  // Of a matrix that has so many rows for each sequence.
  DropoutMask At(size_t layer, DropoutSite site, size_t rows_per_sequence) const;

 private:
  uint64_t key_ = 0;
  uint64_t first_sequence_ = 0;
  uint32_t threshold_ = 0;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DROPOUT_H_

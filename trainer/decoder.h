// A model (model_units.h) that reads a text token by token: keys and values of each block are kept,
// so a token costs one read of the weights and not a forward of the whole window.
//
//   Decoder decoder(config, hooks, threads);
//   const float* logits = decoder.Append(prompt);     // after its last token
//   logits = decoder.Append({&next, 1});              // and after one more
//
// Logits are those of Model::Logits in float32, to rounding. Products are float32 whatever the
// run's are: one row times float32 weights costs what reading these costs, and rounding them first
// would cost more.
//
// A position of GPT-2 is what the table of positions says of it, so keys are of no use once the
// text has moved against the table. When the table is at its end, a caller forgets all and begins
// anew with the last part of its text (text_generator.h). Llama's window has as many positions as
// those of training, and is treated alike.
//
// Units are used in the order of Model::Forward, through the same hooks; each call of Append is one
// forward. Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_DECODER_H_
#define WEFT_TRAINER_DECODER_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "trainer/decoder_ops.h"
#include "trainer/matmul.h"
#include "trainer/model_units.h"
#include "trainer/ops.h"
#include "trainer/tokenizer/token.h"
#include "trainer/unit_params.h"

namespace weft::trainer {

// The most tokens of one Append: so many rows hide the reading of the weights, and take little
// memory.
constexpr size_t kDecoderChunk = 128;

class Decoder {
 public:
  // `threads`: of OpenMP.
  Decoder(const ModelConfig& config, UnitHooks<float>& hooks, size_t threads);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // How many positions of the table are taken.
  size_t length() const { return length_; }

  // Takes 1 to kDecoderChunk tokens, as many as there are positions left at most. The logits after
  // the last of them, [padded_vocabulary]; valid until the next call.
  const float* Append(std::span<const Token> tokens);

  // The next token is the first one.
  void Forget() { length_ = 0; }

 private:
  void Embed(std::span<const Token> tokens);
  void Block(size_t layer, size_t rows);
  // mixed_, of queries, keys and values in wide_.
  void Attend(size_t layer, size_t rows);
  void Norm(const float* x, size_t gain, size_t rows);
  // y = x weight, plus in GPT-2 the bias, the parameter after it.
  void Linear(const float* x, size_t weight, float* y, const RowProductShape& shape, size_t rows);

  const ModelConfig config_;
  const bool llama_;
  const BlockPlaces at_;
  const size_t threads_;
  const std::vector<float> rotation_;
  const Ops<float>& ops_;
  const DecoderOps& decoder_ops_;
  const std::unique_ptr<Matmul<float>> matmul_;  // of several rows
  UnitParams<float> params_;
  size_t length_ = 0;
  std::unique_ptr<float[]> kept_;  // keys and values, of which a page is taken when it is written
  std::vector<KeyValueCache> cache_;  // by block
  // Of the rows under way.
  std::vector<float> residual_, norm_, mean_, rstd_, wide_, gate_, mixed_, added_;
  std::vector<float> scores_, logits_;
};

// How many numbers it has.
size_t DecoderNumbers(const ModelConfig& config);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DECODER_H_

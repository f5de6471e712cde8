// How well a model predicts a text: its mean loss over windows, which the ranks share.
//
//   Evaluation evaluation(config.model, micro_batch, parallel, model);
//   const auto windows = SpreadWindows(text.size(), config.model.seq, 1024);
//   std::optional<double> nats = evaluation.MeanLoss(text, windows, activations, asked_to_end);
//
// Collective over the ranks of the context's group. Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_EVALUATION_H_
#define WEFT_TRAINER_EVALUATION_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "trainer/data/token_text.h"
#include "trainer/model.h"
#include "trainer/parallel.h"
#include "trainer/window_batch.h"

namespace weft::trainer {

// Starts of `count` windows of `seq` + 1 tokens, evenly spread over a text without overlap, or as
// many as there are.
std::vector<size_t> SpreadWindows(size_t text_tokens, size_t seq, size_t count);

// How many tokens at the start of a validation window are context only, so that each judged token
// has at least half of the model's context before it.
inline size_t ContextTokens(size_t seq) {
  return seq / 2;
}

// After how many forwards of so many tokens the ranks look again whether one was asked to end. By
// the model alone, so that all ranks look after the same one.
size_t ForwardsBetweenLooks(const ModelConfig& config, size_t tokens);

class Evaluation {
 public:
  // `micro_batch`: windows of a forward. All is borrowed.
  Evaluation(const ModelConfig& config, size_t micro_batch, DataParallel& parallel,
             Model<float>& model);

  // In nats per token, ContextTokens of each window not judged. Nothing if `asked_to_end`, which is
  // asked now and then on all ranks alike, says so.
  std::optional<double> MeanLoss(const TokenText& text, const std::vector<size_t>& offsets,
                                 Activations<float>& kept,
                                 const std::function<bool()>& asked_to_end);

 private:
  const ModelConfig config_;
  const size_t micro_batch_;
  DataParallel& parallel_;
  Model<float>& model_;
  WindowBatch batch_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_EVALUATION_H_

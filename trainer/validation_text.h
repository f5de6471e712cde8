// The windows of the validation text that a run judges its model by, and what else they are good for: the prompt of its
// sample, and an order-3 model for comparison.
//
//   const ValidationText validation(corpus, config.train);
//   trainer.Evaluate(validation.some());
//
// The corpus is borrowed. Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_VALIDATION_TEXT_H_
#define WEFT_TRAINER_VALIDATION_TEXT_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "trainer/config.h"
#include "trainer/corpus.h"

namespace weft::trainer {

class ValidationText {
 public:
  ValidationText(const Corpus& corpus, const TrainConfig& config);

  // Where the windows begin that are judged in between, and at the end.
  const std::vector<size_t>& some() const { return some_; }

  const std::vector<size_t>& many() const { return many_; }

  // Of the windows of the end, without the context of each.
  size_t judged_bytes() const;

  // What the sample continues.
  std::string Prompt() const;

  // Mean loss in nats of the order-3 model (order3.h) on the bytes that the trained model is judged by at the end. `progress`
  // is told which part of the counting is done.
  double Order3Loss(const std::function<void(double)>& progress) const;

 private:
  const Corpus& corpus_;
  const size_t seq_;
  const std::vector<size_t> some_, many_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_VALIDATION_TEXT_H_

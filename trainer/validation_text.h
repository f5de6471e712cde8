// The windows of the validation text that a run judges its model by, and what else they are good for: the prompt of its
// sample, and an order-3 model for comparison.
//
//   const ValidationText validation(data, config.train);
//   trainer.Evaluate(validation.some());
//
// The data are borrowed. Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_VALIDATION_TEXT_H_
#define WEFT_TRAINER_VALIDATION_TEXT_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "trainer/config.h"
#include "trainer/run_data.h"

namespace weft::trainer {

class ValidationText {
 public:
  ValidationText(const RunData& data, const TrainConfig& config);

  // Where the windows begin that are judged in between, and at the end.
  const std::vector<size_t>& some() const { return some_; }

  const std::vector<size_t>& many() const { return many_; }

  // Of the windows of the end, without the context of each.
  size_t judged_tokens() const;

  // What the sample continues.
  std::vector<Token> Prompt() const;

  // Mean loss in nats of the order-3 model (order3.h) of so many bytes of the text on the bytes that the trained model is judged
  // by at the end. `progress` is told which part of the counting is done. Only where the tokens are bytes.
  double Order3Loss(size_t bytes_max, const std::function<void(double)>& progress) const;

 private:
  const RunData& data_;
  const size_t seq_;
  const std::vector<size_t> some_, many_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_VALIDATION_TEXT_H_

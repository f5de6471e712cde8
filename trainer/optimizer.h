// AdamW over all parameters of a model, and the clipping of their gradients.
//
//   Adamw optimizer(units, views);
//   double norm = optimizer.Step(lr, clip, weight_decay);
//
// Every rank holds the whole state and computes the same bits, because it starts from the same bits
// and gets the same reduced gradients. Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_OPTIMIZER_H_
#define WEFT_TRAINER_OPTIMIZER_H_

#include <cstddef>
#include <vector>

#include "trainer/model.h"

namespace weft::trainer {

class Adamw {
 public:
  Adamw(const std::vector<UnitSpec>& units, std::vector<std::vector<ParamView<float>>> views);

  // Updates the parameters and returns the global gradient norm before clipping.
  double Step(double lr, double clip, double weight_decay);

 private:
  struct Slot {
    ParamView<float> view;
    bool decay;
    std::vector<float> m, v;
  };

  std::vector<Slot> slots_;
  size_t step_ = 0;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OPTIMIZER_H_

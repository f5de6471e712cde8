// weft_train eval: how well a model that was saved predicts a text.
//
//   weftrun -n 2 weft_train eval --from runs/a --data notes/
//
// The windows are those of a run's validation, and so is the loss. Thread-safety: one thread.
#ifndef WEFT_TRAINER_INFERENCE_EVAL_H_
#define WEFT_TRAINER_INFERENCE_EVAL_H_

#include <cstddef>
#include <string>
#include <vector>

#include "weft/group.h"

#include "trainer/inference/use_config.h"
#include "trainer/matmul.h"

namespace weft::trainer {

struct EvalConfig {
  UseConfig use;
  std::vector<std::string> data;  // as a run's; empty: that of the model's own run
  size_t windows = 2048;          // 0: all there are
  size_t batch = 4;               // windows of a forward of a rank
  Precision precision = Precision::kFp32;
  bool best_precision = true;  // that of the CPUs of all ranks, in place of it
  bool json = false;           // one line of it is all that is printed
};

// The text of --help, or "". Throws BadInput.
std::string ParseEvalOptions(int argc, char** argv, EvalConfig& config);

// The exit code. Collective over the ranks of the group. Throws BadInput, NotWritten and
// RunFailure.
int RunEval(const EvalConfig& config, weft_group_t group);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_INFERENCE_EVAL_H_

// weft_train sample: a model that was saved continues a text.
//
//   weft_train sample --from runs/a --prompt "int main" --tokens 200
//
// Prints the prompt and what follows, as it comes. Thread-safety: one thread.
#ifndef WEFT_TRAINER_INFERENCE_SAMPLE_H_
#define WEFT_TRAINER_INFERENCE_SAMPLE_H_

#include <cstddef>
#include <optional>
#include <string>

#include "weft/group.h"

#include "trainer/inference/use_config.h"
#include "trainer/token_choice.h"

namespace weft::trainer {

struct SampleConfig {
  UseConfig use;
  std::string
      tokenizer;  // as ReadTokenizer takes it, or kByteTokenizerName; empty: the model's own
  std::optional<std::string> prompt;  // none: a document begins
  size_t tokens = 400;
  TokenChoice choice = {.temperature = 0.8, .top = 40, .seed = 1};
};

// The text of --help, or "". Throws BadInput.
std::string ParseSampleOptions(int argc, char** argv, SampleConfig& config);

// The exit code. Collective over the ranks of the group. Throws BadInput, NotWritten and
// RunFailure.
int RunSample(const SampleConfig& config, weft_group_t group);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_INFERENCE_SAMPLE_H_

// A model that was saved, whoever has saved it: what a path of --init, or of --from of sample and
// eval, leads to.
//
//   const SavedModel saved("gpt2/");
//   saved.model() ...                                  // its shape
//
// A run or a checkpoint of weft_train; a GPT-2 or Llama of transformers; a file of weights of
// llm.c. Throws BadInput with one sentence. Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_MODEL_FILES_SAVED_MODEL_H_
#define WEFT_TRAINER_MODEL_FILES_SAVED_MODEL_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/model_files/run_model.h"
#include "trainer/model_units.h"

namespace weft::trainer {

// The values of each parameter of a model of another program.
using ParamValues = std::function<std::vector<float>(const ParamSpec& spec)>;

// Nothing if what is there is not another program's. Throws BadInput if it is one, and not of that
// shape.
std::optional<ParamValues> OtherProgramsValues(const std::string& path, const ModelConfig& model);

class SavedModel {
 public:
  enum class Kind { kRun, kTransformers, kLlmc };

  // `option`: what the path was given as.
  SavedModel(const std::string& path, const std::string& option);

  Kind kind() const { return kind_; }

  const std::string& path() const { return path_; }

  const ModelConfig& model() const { return run_.model; }

  // Of the weights; and of a run what it has read.
  const RunModel& run() const { return run_; }

 private:
  std::string path_;
  Kind kind_;
  RunModel run_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_SAVED_MODEL_H_

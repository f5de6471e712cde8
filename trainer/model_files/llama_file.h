// A Llama in files of transformers: model.safetensors, or the folder of it, with its config.json.
//
//   if (LlamaFile::IsOne("llama/")) {
//     const LlamaFile file("llama/", model);                 // checked: all that the model needs is there, and nothing that it has not
//     std::vector<float> wte = file.Read(units[0].params[0]);
//   }
//
// Throws BadInput with one sentence. Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_MODEL_FILES_LLAMA_FILE_H_
#define WEFT_TRAINER_MODEL_FILES_LLAMA_FILE_H_

#include <string>
#include <vector>

#include "trainer/model_files/safetensors_file.h"
#include "trainer/model_units.h"

namespace weft::trainer {

class LlamaFile {
 public:
  // Whether a path is such a file or folder, by the names of its tensors. Files of several parts
  // are none.
  static bool IsOne(const std::string& path);

  // The shape of such a model: by its tensors, and what they do not say by config.json, which must
  // be there.
  static ModelConfig ShapeOf(const std::string& path);

  LlamaFile(const std::string& path, const ModelConfig& model);

  std::vector<float> Read(const ParamSpec& spec) const;

 private:
  const SafetensorsTensor* FindTensor(const std::string& name) const;
  void CheckTensors() const;
  // What config.json beside it says, if there is one, and tensors do not.
  void CheckConfig() const;

  const SafetensorsFile file_;
  const ModelConfig model_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_LLAMA_FILE_H_

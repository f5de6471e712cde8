// A GPT-2 in files of transformers: model.safetensors, or the folder of it, with its config.json.
//
//   if (Gpt2File::IsOne("gpt2/")) {
//     const Gpt2File file("gpt2/", model);                  // checked: all that the model needs is there
//     std::vector<float> wte = file.Read(units[0].params[0]);
//   }
//
// Throws BadInput with one sentence. Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_MODEL_FILES_GPT2_FILE_H_
#define WEFT_TRAINER_MODEL_FILES_GPT2_FILE_H_

#include <string>
#include <vector>

#include "trainer/model_files/safetensors_file.h"
#include "trainer/model_units.h"

namespace weft::trainer {

class Gpt2File {
 public:
  // Whether a path is such a file or folder, by the names of its tensors. Files of several parts
  // are none.
  static bool IsOne(const std::string& path);

  // The shape of such a model: by its tensors, and its heads by config.json, which must be there.
  static ModelConfig ShapeOf(const std::string& path);

  Gpt2File(const std::string& path, const ModelConfig& model);

  std::vector<float> Read(const ParamSpec& spec) const;

 private:
  const SafetensorsTensor* FindTensor(const std::string& name) const;
  // That config.json beside it, if there is one, has as many heads: tensors do not say it.
  void CheckHeads() const;

  const SafetensorsFile file_;
  const ModelConfig model_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_GPT2_FILE_H_

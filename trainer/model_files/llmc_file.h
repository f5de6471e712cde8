// A GPT-2 in llm.c's file of weights: 256 words of 32 bits, then the tensors of all layers, kind by
// kind (docs/formats/llmc_model.md).
//
//   if (LlmcFile::IsOne("gpt2_124M.bin")) {
//     const LlmcFile file("gpt2_124M.bin");
//     file.CheckFor(model);                               // that a model can begin with it
//     std::vector<float> wte = file.Read(units[0].params[0], model);
//   }
//   WriteLlmc("mine.bin", model, NumberType::kBf16, [&](const ParamSpec& spec) { return values; });
//
// Throws BadInput with one sentence that begins with the file. Thread-safety: constant after
// construction.
#ifndef WEFT_TRAINER_MODEL_FILES_LLMC_FILE_H_
#define WEFT_TRAINER_MODEL_FILES_LLMC_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "trainer/model_files/mapped_file.h"
#include "trainer/model_units.h"
#include "trainer/number_type.h"

namespace weft::trainer {

class LlmcFile {
 public:
  // By its magic number.
  static bool IsOne(const std::string& path);

  explicit LlmcFile(const std::filesystem::path& path);

  // What the header says; the head is tied.
  const ModelConfig& model() const { return model_; }

  NumberType type() const { return type_; }

  // That `model` has this shape; it may have fewer positions, and takes the first ones.
  void CheckFor(const ModelConfig& model) const;
  std::vector<float> Read(const ParamSpec& spec, const ModelConfig& model) const;

 private:
  const std::filesystem::path path_;
  const MappedFile file_;
  ModelConfig model_;
  size_t padded_rows_ = 0;  // of the token table
  NumberType type_ = NumberType::kFloat32;
};

// The values of each parameter, as the trainer has them, are asked for one at a time. `type`:
// float32 or bfloat16. Throws NotWritten, and BadInput for a model whose head is its own.
void WriteLlmc(const std::filesystem::path& path, const ModelConfig& model, NumberType type,
               const std::function<std::vector<float>(const ParamSpec& spec)>& values);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_LLMC_FILE_H_

// Files of the safetensors format (github.com/huggingface/safetensors): a header of JSON, then the
// values of all tensors.
//
//   const SafetensorsFile file("gpt2/model.safetensors");
//   const SafetensorsTensor* wte = file.Find("wte.weight");
//   std::vector<float> values = file.Read(*wte);
//
// Reads float32, float64, float16 and bfloat16, as float. Throws BadInput with one sentence that
// begins with the file. Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_MODEL_FILES_SAFETENSORS_FILE_H_
#define WEFT_TRAINER_MODEL_FILES_SAFETENSORS_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trainer/model_files/mapped_file.h"

namespace weft::trainer {

struct SafetensorsTensor {
  std::string type;  // as the format has it: F32
  std::vector<int64_t> shape;
  size_t begin = 0, end = 0;  // bytes of the file

  size_t Count() const;
};

class SafetensorsFile {
 public:
  explicit SafetensorsFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }

  const std::map<std::string, SafetensorsTensor>& tensors() const { return tensors_; }

  // nullptr if there is none.
  const SafetensorsTensor* Find(const std::string& name) const;
  std::vector<float> Read(const SafetensorsTensor& tensor) const;

 private:
  void ReadHeader();

  const std::filesystem::path path_;
  const MappedFile file_;
  std::map<std::string, SafetensorsTensor> tensors_;
};

// The file that a path means: itself, or model.safetensors in a folder.
std::filesystem::path SafetensorsIn(const std::string& path);

// A tensor to be written, as float32; `values` is asked for once, when its turn comes.
struct TensorToWrite {
  std::string name;
  std::vector<int64_t> shape;
  std::function<std::vector<float>()> values;
};

// Under another name first, so the file is whole or not there. Throws NotWritten.
void WriteSafetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_SAFETENSORS_FILE_H_

// What is the same in all models that transformers has saved: which file is meant, what a tensor of
// it looks like, and the config.json beside it.
//
// Thread-safety: functions.
#ifndef WEFT_TRAINER_MODEL_FILES_TRANSFORMERS_FOLDER_H_
#define WEFT_TRAINER_MODEL_FILES_TRANSFORMERS_FOLDER_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/model_files/safetensors_file.h"

namespace weft::trainer {

// Whether a path leads to a .safetensors file that can be read, and of which `tells` says that it
// is one.
bool IsSafetensorsThat(const std::string& path,
                       const std::function<bool(const SafetensorsFile& file)>& tells);

// The shape of `tensor`, which is that of `name`. Throws BadInput if it is null or no matrix with
// elements.
std::vector<int64_t> MatrixShape(const SafetensorsFile& file, const SafetensorsTensor* tensor,
                                 const std::string& name);

std::filesystem::path ConfigPathBeside(const std::filesystem::path& file);

// That file; null if there is none, or no object in it.
nlohmann::json ConfigBeside(const std::filesystem::path& file);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_TRANSFORMERS_FOLDER_H_

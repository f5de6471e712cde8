#include "trainer/model_files/transformers_folder.h"

#include <fstream>
#include <system_error>

#include <fmt/core.h>

#include "trainer/failure.h"

namespace weft::trainer {

namespace fs = std::filesystem;

bool IsSafetensorsThat(const std::string& path,
                       const std::function<bool(const SafetensorsFile& file)>& tells) {
  const fs::path file = SafetensorsIn(path);
  std::error_code ignored;
  if (file.extension() != ".safetensors" || !fs::is_regular_file(file, ignored)) return false;
  try {
    return tells(SafetensorsFile(file));
  } catch (const BadInput&) {
    return false;  // --init says what is wrong with it
  }
}

std::vector<int64_t> MatrixShape(const SafetensorsFile& file, const SafetensorsTensor* tensor,
                                 const std::string& name) {
  if (tensor == nullptr || tensor->shape.size() != 2 || tensor->shape[0] < 1 ||
      tensor->shape[1] < 1)
    throw BadInput(fmt::format("{} has no matrix {}", file.path().string(), name));
  return tensor->shape;
}

fs::path ConfigPathBeside(const fs::path& file) {
  return file.parent_path() / "config.json";
}

nlohmann::json ConfigBeside(const fs::path& file) {
  std::ifstream in(ConfigPathBeside(file));
  if (!in) return {};
  nlohmann::json config = nlohmann::json::parse(in, nullptr, /*allow_exceptions=*/false);
  return config.is_object() ? config : nlohmann::json();
}

}  // namespace weft::trainer

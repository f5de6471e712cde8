#include "trainer/model_files/safetensors_file.h"

#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "trainer/failure.h"
#include "trainer/model_files/whole_file.h"
#include "trainer/number_type.h"
#include "trainer/ops.h"
#include "trainer/run_files.h"

namespace weft::trainer {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kHeaderBytesMax = 100'000'000;  // as the format's own reader
constexpr size_t kAlignment = 8;                 // of the values

// Nothing for a type that is not read.
size_t BytesOfType(const std::string& type) {
  if (type == "F64") return 8;
  if (type == "F32") return 4;
  return type == "F16" || type == "BF16" ? 2 : 0;
}

NumberType TypeOf(const std::string& type) {
  if (type == "F64") return NumberType::kFloat64;
  if (type == "F16") return NumberType::kFp16;
  return type == "BF16" ? NumberType::kBf16 : NumberType::kFloat32;
}

// A tensor's entry in the header, or nothing if it is none.
std::optional<SafetensorsTensor> TensorOf(const nlohmann::json& json) {
  const auto text = [&](const char* key) {
    return json.find(key);
  };
  const auto type = text("dtype"), shape = text("shape"), offsets = text("data_offsets");
  if (!json.is_object() || type == json.end() || !type->is_string() || shape == json.end() ||
      !shape->is_array() || offsets == json.end() || !offsets->is_array() || offsets->size() != 2)
    return std::nullopt;
  SafetensorsTensor tensor;
  tensor.type = type->get<std::string>();
  size_t count = 1;
  for (const auto& n : *shape) {
    if (!n.is_number_unsigned()) return std::nullopt;
    tensor.shape.push_back(n.get<int64_t>());
    if (__builtin_mul_overflow(count, n.get<size_t>(), &count)) return std::nullopt;
  }
  if (!(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned())
    return std::nullopt;
  tensor.begin = (*offsets)[0].get<size_t>();
  tensor.end = (*offsets)[1].get<size_t>();
  return tensor;
}

}  // namespace

size_t SafetensorsTensor::Count() const {
  size_t count = 1;
  for (const int64_t n : shape)
    count *= size_t(n);
  return count;
}

SafetensorsFile::SafetensorsFile(std::filesystem::path path)
    : path_(std::move(path)), file_(path_, "safetensors file", kLengthBytes) {
  ReadHeader();
}

void SafetensorsFile::ReadHeader() {
  const size_t bytes = file_.bytes().size();
  uint64_t length = 0;
  std::memcpy(&length, file_.bytes().data(), sizeof length);
  if (length > kHeaderBytesMax || length > bytes - kLengthBytes)
    throw BadInput(fmt::format("{} is no safetensors file, or was cut off", path_.string()));
  const char* const text = reinterpret_cast<const char*>(file_.bytes().data() + kLengthBytes);
  const nlohmann::json header =
      nlohmann::json::parse(text, text + length, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object())
    throw BadInput(fmt::format("{} is no safetensors file: its header is no JSON", path_.string()));
  const size_t first = kLengthBytes + length;
  for (const auto& [name, json] : header.items()) {
    if (name == "__metadata__") continue;
    std::optional<SafetensorsTensor> tensor = TensorOf(json);
    if (!tensor || tensor->begin > tensor->end || tensor->end > bytes - first)
      throw BadInput(
          fmt::format("{}: tensor {} is not in the file, which was cut off or is damaged",
                      path_.string(), name));
    tensor->begin += first;
    tensor->end += first;
    tensors_.emplace(name, *std::move(tensor));
  }
}

const SafetensorsTensor* SafetensorsFile::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<float> SafetensorsFile::Read(const SafetensorsTensor& tensor) const {
  const size_t size = BytesOfType(tensor.type);
  const size_t count = tensor.Count();
  if (size == 0)
    throw BadInput(fmt::format("{}: a tensor has values of type {}; convert it to F32, F16 or BF16",
                               path_.string(), tensor.type));
  if ((tensor.end - tensor.begin) / size != count || (tensor.end - tensor.begin) % size != 0)
    throw BadInput(fmt::format("{}: a tensor's bytes are not those of its shape", path_.string()));
  std::vector<float> values(count);
  // The format promises no alignment.
  const std::span<const std::byte> bytes =
      file_.bytes().subspan(tensor.begin, tensor.end - tensor.begin);
  const std::vector<std::byte> aligned(bytes.begin(), bytes.end());
  GetOps<float>().widen({aligned.data(), TypeOf(tensor.type)}, values.data(), count);
  return values;
}

std::filesystem::path SafetensorsIn(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path folder(path);
  return std::filesystem::is_directory(folder, ignored) ? folder / "model.safetensors" : folder;
}

void WriteSafetensors(const std::filesystem::path& path,
                      const std::vector<TensorToWrite>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  size_t at = 0;
  for (const TensorToWrite& tensor : tensors) {
    size_t count = 1;
    for (const int64_t n : tensor.shape)
      count *= size_t(n);
    header[tensor.name] = {{"dtype", "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, at + count * sizeof(float)}}};
    at += count * sizeof(float);
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = text.size();
  WholeFile file(path);
  file.Write(&length, sizeof length);
  file.Write(text.data(), text.size());
  for (const TensorToWrite& tensor : tensors) {
    const std::vector<float> values = tensor.values();
    file.Write(values.data(), values.size() * sizeof(float));
  }
  file.Commit();
}

}  // namespace weft::trainer

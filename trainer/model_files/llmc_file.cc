// Linear layers are PyTorch's nn.Linear there, [out, in], with queries, keys and values side by
// side, each with all heads: those of transformers, turned. So values go through its layout
// (gpt2_layout.h).
#include "trainer/model_files/llmc_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/model_files/gpt2_layout.h"
#include "trainer/model_files/whole_file.h"
#include "trainer/ops.h"

namespace weft::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "files are mapped as they are");

constexpr int32_t kMagic = 20240326;
constexpr int32_t kFloat32Version = 3, kBf16Version = 5;  // both with a padded vocabulary
constexpr size_t kHeaderWords = 256;
constexpr size_t kHeaderBytes = kHeaderWords * sizeof(int32_t);
constexpr int32_t kDimensionMax = 1 << 24;

enum HeaderWord : size_t {
  kMagicWord,
  kVersionWord,
  kSeq,
  kVocabulary,
  kLayers,
  kHeads,
  kWidth,
  kPadded
};

using Header = std::array<int32_t, kHeaderWords>;

// Numbers of a parameter in a file whose token table has so many rows.
size_t CountOf(const ParamSpec& spec, const ModelConfig& model, size_t padded_rows) {
  return spec.name == "wte" ? padded_rows * model.width : spec.Count();
}

// All of a model's, in the file's order: the tables, then each parameter of a block for all layers,
// then the final norm.
struct Placed {
  ParamSpec spec;
  size_t begin = 0;  // numbers before it
  size_t count = 0;
};

std::vector<Placed> OrderOf(const ModelConfig& model, size_t padded_rows) {
  const std::vector<UnitSpec> units = ModelUnits(model);
  std::vector<Placed> order;
  const auto add = [&](const ParamSpec& spec) {
    const size_t begin = order.empty() ? 0 : order.back().begin + order.back().count;
    order.push_back({spec, begin, CountOf(spec, model, padded_rows)});
  };
  for (const ParamSpec& spec : units.front().params)
    add(spec);
  for (size_t param = 0; param < units[1].params.size(); param++) {
    for (size_t layer = 0; layer < model.layers; layer++)
      add(units[layer + 1].params[param]);
  }
  for (const ParamSpec& spec : units.back().params)
    add(spec);
  return order;
}

// Whether a matrix of transformers' is turned: those of linear layers.
bool IsLinear(const Gpt2Tensor& tensor) {
  return tensor.shape().size() == 2 && tensor.name().starts_with("h.");
}

std::vector<float> Turned(const std::vector<float>& matrix, size_t rows, size_t columns) {
  std::vector<float> turned(matrix.size());
  for (size_t i = 0; i < rows; i++) {
    for (size_t j = 0; j < columns; j++)
      turned[j * rows + i] = matrix[i * columns + j];
  }
  return turned;
}

}  // namespace

bool LlmcFile::IsOne(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream in(path, std::ios::binary);
  int32_t magic = 0;
  in.read(reinterpret_cast<char*>(&magic), sizeof magic);
  return in && magic == kMagic;
}

LlmcFile::LlmcFile(const std::filesystem::path& path)
    : path_(path), file_(path, "file of weights of llm.c", kHeaderBytes) {
  Header header;
  std::memcpy(header.data(), file_.bytes().data(), kHeaderBytes);
  const auto refuse = [&](const std::string& why) {
    throw BadInput(fmt::format("{} {}", path_.string(), why));
  };
  if (header[kMagicWord] != kMagic) refuse("is no file of weights of llm.c");
  const int32_t version = header[kVersionWord];
  if (version != kFloat32Version && version != kBf16Version)
    refuse(fmt::format("is of version {} of llm.c's format; 3 (float32) and 5 (bfloat16) are read",
                       version));
  for (size_t word = kSeq; word <= kPadded; word++) {
    if (header[word] < 1 || header[word] > kDimensionMax)
      refuse(fmt::format("says {} in word {} of its header, which is no size", header[word], word));
  }
  type_ = version == kBf16Version ? NumberType::kBf16 : NumberType::kFloat32;
  model_.seq = size_t(header[kSeq]);
  model_.vocabulary = size_t(header[kVocabulary]);
  model_.layers = size_t(header[kLayers]);
  model_.heads = size_t(header[kHeads]);
  model_.width = size_t(header[kWidth]);
  padded_rows_ = size_t(header[kPadded]);
  if (model_.width % model_.heads != 0 || padded_rows_ < model_.vocabulary ||
      model_.layers > size_t(kHeaderWords) || model_.width > 65536)
    refuse("has a header that is of no model");
  const Placed last = OrderOf(model_, padded_rows_).back();
  const size_t bytes = kHeaderBytes + (last.begin + last.count) * BytesOf(type_);
  if (file_.bytes().size() != bytes)
    refuse(fmt::format("has {} bytes, and by its header {}; it was cut off or is damaged",
                       file_.bytes().size(), bytes));
}

void LlmcFile::CheckFor(const ModelConfig& model) const {
  const auto check = [&](const char* option, size_t theirs, size_t ours) {
    if (theirs == ours) return;
    throw BadInput(fmt::format("{} is a model with --{} {}, and this model has {}; give --{} {}",
                               path_.string(), option, theirs, ours, option, theirs));
  };
  check("layers", model_.layers, model.layers);
  check("width", model_.width, model.width);
  check("heads", model_.heads, model.heads);
  check("vocabulary", model_.vocabulary, model.vocabulary);
  if (model.seq > model_.seq) check("seq", model_.seq, model.seq);
  if (!model.tied_head)
    throw BadInput(fmt::format("{} has no head of its own; give --head tied", path_.string()));
}

std::vector<float> LlmcFile::Read(const ParamSpec& spec, const ModelConfig& model) const {
  const std::vector<Placed> order = OrderOf(model_, padded_rows_);
  const auto found = std::find_if(order.begin(), order.end(), [&](const Placed& placed) {
    return placed.spec.name == spec.name;
  });
  if (found == order.end())
    throw BadInput(fmt::format("{} has no parameter {}", path_.string(), spec.name));
  std::vector<float> theirs(found->count);
  const size_t size = BytesOf(type_);
  GetOps<float>().widen({file_.bytes().data() + kHeaderBytes + found->begin * size, type_},
                        theirs.data(), theirs.size());
  const Gpt2Tensor tensor(spec, model);
  if (!IsLinear(tensor)) return tensor.ToOurs(theirs);
  return tensor.ToOurs(Turned(theirs, size_t(tensor.shape()[1]), size_t(tensor.shape()[0])));
}

void WriteLlmc(const std::filesystem::path& path, const ModelConfig& model, NumberType type,
               const std::function<std::vector<float>(const ParamSpec& spec)>& values) {
  if (!model.tied_head)
    throw BadInput("a file of llm.c has no place for a head of its own; this model has one");
  Header header = {kMagic,
                   type == NumberType::kBf16 ? kBf16Version : kFloat32Version,
                   int32_t(model.seq),
                   int32_t(model.vocabulary),
                   int32_t(model.layers),
                   int32_t(model.heads),
                   int32_t(model.width),
                   int32_t(model.padded_vocabulary())};
  WholeFile file(path);
  file.Write(header.data(), kHeaderBytes);
  for (const Placed& placed : OrderOf(model, model.padded_vocabulary())) {
    const Gpt2Tensor tensor(placed.spec, model);
    std::vector<float> theirs = tensor.ToTheirs(values(placed.spec));
    if (IsLinear(tensor))
      theirs = Turned(theirs, size_t(tensor.shape()[0]), size_t(tensor.shape()[1]));
    theirs.resize(placed.count, 0);  // rows of no token
    if (type == NumberType::kFloat32) {
      file.Write(theirs.data(), theirs.size() * sizeof(float));
      continue;
    }
    std::vector<uint16_t> halves(theirs.size());
    GetOps<float>().to_bf16(theirs.data(), halves.data(), halves.size());
    file.Write(halves.data(), halves.size() * sizeof halves[0]);
  }
  file.Commit();
}

}  // namespace weft::trainer

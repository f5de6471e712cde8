#include "trainer/model_files/llama_layout.h"

#include <string_view>
#include <utility>

namespace weft::trainer {
namespace {

struct LlamaName {
  std::string_view ours, theirs;
  LlamaTensor::Part part;
};

using Part = LlamaTensor::Part;

// Of a block.
constexpr LlamaName kLlamaNames[] = {{"norm1", "input_layernorm", Part::kAll},
                                     {"attn.qkv", "self_attn.q_proj", Part::kQueries},
                                     {"attn.qkv", "self_attn.k_proj", Part::kKeys},
                                     {"attn.qkv", "self_attn.v_proj", Part::kValues},
                                     {"attn.proj", "self_attn.o_proj", Part::kTransposed},
                                     {"norm2", "post_attention_layernorm", Part::kAll},
                                     {"mlp.gate", "mlp.gate_proj", Part::kAll},
                                     {"mlp.up", "mlp.up_proj", Part::kAll},
                                     {"mlp.down", "mlp.down_proj", Part::kTransposed}};

size_t Elements(const std::vector<int64_t>& shape) {
  size_t count = 1;
  for (const int64_t n : shape)
    count *= size_t(n);
  return count;
}

}  // namespace

LlamaTensor::LlamaTensor(std::string name, const ParamSpec& spec, const ModelConfig& model,
                         Part part)
    : name_(std::move(name)),
      shape_(spec.shape),
      part_(part),
      head_dim_(model.head_dim()),
      group_(model.heads / model.key_heads()) {
  shape_[0] -= int64_t(spec.padding_rows);
  if (part == Part::kTransposed) std::swap(shape_[0], shape_[1]);
  if (part == Part::kQueries) shape_[0] = int64_t(model.heads * head_dim_);
  if (part == Part::kKeys || part == Part::kValues)
    shape_[0] = int64_t(model.key_heads() * head_dim_);
  count_ = Elements(shape_);
}

size_t LlamaTensor::PlaceOf(size_t index) const {
  if (part_ == Part::kAll) return index;
  const size_t columns = size_t(shape_[1]), row = index / columns, column = index % columns;
  if (part_ == Part::kTransposed) return column * size_t(shape_[0]) + row;
  // Ours: for each head of keys its queries, the key, the value.
  const size_t head = row / head_dim_;
  size_t of_ours = head * (group_ + 2) + group_;
  if (part_ == Part::kQueries) of_ours = head / group_ * (group_ + 2) + head % group_;
  if (part_ == Part::kValues) of_ours++;
  return (of_ours * head_dim_ + row % head_dim_) * columns + column;
}

void LlamaTensor::ToOurs(const std::vector<float>& theirs, std::vector<float>& ours) const {
  for (size_t i = 0; i < count_; i++)
    ours[PlaceOf(i)] = theirs[i];
}

std::vector<float> LlamaTensor::ToTheirs(const std::vector<float>& ours) const {
  std::vector<float> theirs(count_);
  for (size_t i = 0; i < count_; i++)
    theirs[i] = ours[PlaceOf(i)];
  return theirs;
}

std::vector<LlamaTensor> LlamaTensorsOf(const ParamSpec& spec, const ModelConfig& model) {
  const auto all_of = [&](const std::string& name) {
    return std::vector<LlamaTensor>{{name, spec, model, Part::kAll}};
  };
  if (spec.name == "wte") return all_of("model.embed_tokens.weight");
  if (spec.name == "head.weight") return all_of("lm_head.weight");
  if (spec.name == "norm.weight") return all_of("model.norm.weight");
  const size_t layer = std::string_view("block.").size();
  const size_t inside = spec.name.find('.', layer) + 1, kind = spec.name.rfind('.');
  const std::string at = "model.layers." + spec.name.substr(layer, inside - layer);
  std::vector<LlamaTensor> tensors;
  for (const LlamaName& name : kLlamaNames) {
    if (spec.name.substr(inside, kind - inside) == name.ours)
      tensors.emplace_back(at + std::string(name.theirs) + ".weight", spec, model, name.part);
  }
  return tensors;
}

}  // namespace weft::trainer

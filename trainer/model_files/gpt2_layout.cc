#include "trainer/model_files/gpt2_layout.h"

#include <array>
#include <string_view>
#include <utility>

namespace weft::trainer {
namespace {

constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"ln1", "ln_1"},
                                                                    {"ln2", "ln_2"},
                                                                    {"attn.qkv", "attn.c_attn"},
                                                                    {"attn.proj", "attn.c_proj"},
                                                                    {"mlp.up", "mlp.c_fc"},
                                                                    {"mlp.down", "mlp.c_proj"}};

// "block.3.attn.qkv.weight" to "h.3.attn.c_attn.weight".
std::string NameOf(const std::string& ours) {
  if (ours == "wte" || ours == "wpe") return ours + ".weight";
  if (ours == "head.weight") return "lm_head.weight";
  if (ours.starts_with("lnf.")) return "ln_f." + ours.substr(4);
  const size_t layer = std::string_view("block.").size();
  const size_t inside = ours.find('.', layer) + 1;
  const size_t kind = ours.rfind('.');
  const std::string part = ours.substr(inside, kind - inside);
  for (const auto& [own, theirs] : kNames) {
    if (part == own)
      return "h." + ours.substr(layer, inside - layer) + std::string(theirs) + ours.substr(kind);
  }
  return ours;
}

}  // namespace

Gpt2Tensor::Gpt2Tensor(const ParamSpec& spec, const ModelConfig& model)
    : name_(NameOf(spec.name)),
      shape_(spec.shape),
      count_(spec.Count()),
      padded_(spec.Count()),
      width_(model.width),
      head_dim_(model.width / model.heads) {
  if (spec.padding_rows > 0) {
    shape_[0] -= int64_t(spec.padding_rows);
    count_ = size_t(shape_[0]) * width_;
  }
  const bool matrix = shape_.size() == 2;
  if (name_.ends_with("c_attn.weight") || name_.ends_with("c_attn.bias"))
    layout_ = matrix ? Layout::kHeadsTransposed : Layout::kHeads;
  if (name_.ends_with("c_fc.weight")) layout_ = Layout::kTransposed;
  if (matrix && layout_ != Layout::kSame) std::swap(shape_[0], shape_[1]);
}

size_t Gpt2Tensor::PlaceOf(size_t index) const {
  if (layout_ == Layout::kSame) return index;
  const bool matrix = layout_ != Layout::kHeads;
  size_t row = matrix ? index / width_ : index;  // of ours
  if (layout_ != Layout::kTransposed) {
    // Ours: head, which of three, element; theirs: which of three, head, element.
    const size_t head = row / (3 * head_dim_), which = row / head_dim_ % 3;
    row = which * width_ + head * head_dim_ + row % head_dim_;
  }
  return matrix ? index % width_ * size_t(shape_[1]) + row : row;
}

std::vector<float> Gpt2Tensor::ToOurs(const std::vector<float>& theirs) const {
  std::vector<float> ours(padded_, 0);
  for (size_t i = 0; i < count_; i++)
    ours[i] = theirs[PlaceOf(i)];
  return ours;
}

std::vector<float> Gpt2Tensor::ToTheirs(const std::vector<float>& ours) const {
  std::vector<float> theirs(count_);
  for (size_t i = 0; i < count_; i++)
    theirs[PlaceOf(i)] = ours[i];
  return theirs;
}

}  // namespace weft::trainer

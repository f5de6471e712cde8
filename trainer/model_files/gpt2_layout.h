// GPT-2 as transformers has it, tensor by tensor, beside the trainer's parameters: names, shapes, and values one way and the other.
//
//   const Gpt2Tensor theirs = Gpt2TensorOf(spec, model);
//   std::vector<float> ours = theirs.ToOurs(values);       // of a tensor of that name and shape
//
// Thread-safety: values.
#ifndef WEFT_TRAINER_MODEL_FILES_GPT2_LAYOUT_H_
#define WEFT_TRAINER_MODEL_FILES_GPT2_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/model_units.h"

namespace weft::trainer {

class Gpt2Tensor {
 public:
  Gpt2Tensor(const ParamSpec& spec, const ModelConfig& model);

  // "h.3.attn.c_attn.weight", as in GPT2Model; GPT2LMHeadModel puts "transformer." before all but lm_head.weight.
  const std::string& name() const { return name_; }

  const std::vector<int64_t>& shape() const { return shape_; }

  // Theirs may have more rows where ours are those of positions: the first ones are taken.
  std::vector<float> ToOurs(const std::vector<float>& theirs) const;
  std::vector<float> ToTheirs(const std::vector<float>& ours) const;

 private:
  enum class Layout { kSame, kTransposed, kHeads, kHeadsTransposed };

  // Where element `index` of ours stands in theirs.
  size_t PlaceOf(size_t index) const;

  std::string name_;
  std::vector<int64_t> shape_;
  Layout layout_ = Layout::kSame;
  size_t count_;   // of ours that are not padding
  size_t padded_;  // of ours
  size_t width_, head_dim_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_GPT2_LAYOUT_H_

// Llama as transformers has it, tensor by tensor, beside the trainer's parameters: names, shapes,
// and values one way and the other.
//
//   for (const LlamaTensor& theirs : LlamaTensorsOf(spec, model))
//     theirs.ToOurs(values_of(theirs.name()), ours);
//
// A parameter is one tensor, but attn.qkv, which is three. Thread-safety: values.
#ifndef WEFT_TRAINER_MODEL_FILES_LLAMA_LAYOUT_H_
#define WEFT_TRAINER_MODEL_FILES_LLAMA_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/model_units.h"

namespace weft::trainer {

class LlamaTensor {
 public:
  // What of a parameter it is: all, or of each head's rows of attn.qkv these.
  enum class Part { kAll, kTransposed, kQueries, kKeys, kValues };

  LlamaTensor(std::string name, const ParamSpec& spec, const ModelConfig& model, Part part);

  // "model.layers.3.self_attn.q_proj.weight", as in LlamaForCausalLM.
  const std::string& name() const { return name_; }

  const std::vector<int64_t>& shape() const { return shape_; }

  // Into the parameter, whose other elements stay as they are.
  void ToOurs(const std::vector<float>& theirs, std::vector<float>& ours) const;
  std::vector<float> ToTheirs(const std::vector<float>& ours) const;

 private:
  // Where element `index` of theirs stands in ours.
  size_t PlaceOf(size_t index) const;

  std::string name_;
  std::vector<int64_t> shape_;
  Part part_;
  size_t count_, head_dim_, group_;
};

std::vector<LlamaTensor> LlamaTensorsOf(const ParamSpec& spec, const ModelConfig& model);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_LLAMA_LAYOUT_H_

// The second half of a block: a norm, a perceptron, and its sum with the residual stream. GPT-2's
// is wide and has GELU; Llama's has a gate (SwiGLU, Shazeer 2020).
//
//   const std::unique_ptr<Perceptron<float>> perceptron = MakePerceptron<float>(config, matmul);
//   perceptron->Forward(use);        // use.kept.middle to use.out()
//
// Thread-safety: an object belongs to the thread of its Matmul.
#ifndef WEFT_TRAINER_PERCEPTRON_H_
#define WEFT_TRAINER_PERCEPTRON_H_

#include <cstddef>
#include <memory>

#include "trainer/block_layers.h"
#include "trainer/block_use.h"
#include "trainer/matmul.h"
#include "trainer/model_units.h"
#include "trainer/ops.h"

namespace weft::trainer {

template <typename T>
class Perceptron {
 public:
  virtual ~Perceptron() = default;

  void Forward(const BlockUse<T>& use) const;
  // Of it, what backward reads: all but the last product; or of that, what costs little.
  void ForwardHidden(const BlockUse<T>& use) const;
  void NormAndActivate(const BlockUse<T>& use) const;
  // gradients.residual(): that of use.out(), and afterwards that of use.kept.middle.
  void Backward(const BlockUse<T>& use, GradientBuffers<T>& gradients) const;

 protected:
  Perceptron(const ModelConfig& config, Matmul<T>& matmul);

  // From what the norm gave to what Activate reads.
  virtual void Project(const BlockUse<T>& use) const = 0;
  virtual void Activate(const BlockUse<T>& use) const = 0;
  // From gradients.wide(), that of what Activate gave, to gradients.norm().
  virtual void BackwardHidden(const BlockUse<T>& use, GradientBuffers<T>& gradients) const = 0;

  const size_t width_, hidden_;
  const BlockPlaces at_;
  const BlockLayers<T> layers_;
  const Ops<T>& ops_;

 private:
  void Norm(const BlockUse<T>& use) const;
};

// That of the model's architecture.
template <typename T>
std::unique_ptr<Perceptron<T>> MakePerceptron(const ModelConfig& config, Matmul<T>& matmul);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_PERCEPTRON_H_

#include "trainer/perceptron.h"

namespace weft::trainer {
namespace {

template <typename T>
class GeluPerceptron : public Perceptron<T> {
 public:
  GeluPerceptron(const ModelConfig& config, Matmul<T>& matmul) : Perceptron<T>(config, matmul) {}

 private:
  MatmulShape Up(const BlockUse<T>& use) const { return {use.rows, this->width_, this->hidden_}; }

  void Project(const BlockUse<T>& use) const override {
    this->layers_.Linear(use, this->at_.up, use.kept.norm2, use.kept.hidden, Up(use));
  }

  void Activate(const BlockUse<T>& use) const override {
    this->ops_.gelu(use.kept.hidden, use.kept.active, use.rows, this->hidden_);
  }

  void BackwardHidden(const BlockUse<T>& use, GradientBuffers<T>& gradients) const override {
    const MutableNumbers wide = gradients.wide();
    T* const bias = use.params.Grad(this->at_.up + 1);
    this->ops_.gelu_backward(use.kept.hidden, wide, wide, bias, use.rows, this->hidden_);
    this->layers_.BackwardProducts(use, this->at_.up, use.kept.norm2, wide, gradients.norm(),
                                   Up(use), true);
  }
};

template <typename T>
class GatedPerceptron : public Perceptron<T> {
 public:
  GatedPerceptron(const ModelConfig& config, Matmul<T>& matmul) : Perceptron<T>(config, matmul) {}

 private:
  MatmulShape Up(const BlockUse<T>& use) const { return {use.rows, this->width_, this->hidden_}; }

  void Project(const BlockUse<T>& use) const override {
    this->layers_.Linear(use, this->at_.gate, use.kept.norm2, use.kept.gate, Up(use));
    this->layers_.Linear(use, this->at_.up, use.kept.norm2, use.kept.hidden, Up(use));
  }

  void Activate(const BlockUse<T>& use) const override {
    this->ops_.swiglu(use.kept.gate, use.kept.hidden, use.kept.active, use.rows, this->hidden_);
  }

  void BackwardHidden(const BlockUse<T>& use, GradientBuffers<T>& gradients) const override {
    const BlockActivations<T>& kept = use.kept;
    const MutableNumbers dup = gradients.wide(), dgate = gradients.gate();
    this->ops_.swiglu_backward(kept.gate, kept.hidden, dup, dgate, dup, use.rows, this->hidden_);
    this->layers_.BackwardProducts(use, this->at_.up, kept.norm2, dup, gradients.norm(), Up(use),
                                   true);
    this->layers_.BackwardProducts(use, this->at_.gate, kept.norm2, dgate, gradients.norm(),
                                   Up(use), true, /*adds=*/true);
  }
};

}  // namespace

template <typename T>
Perceptron<T>::Perceptron(const ModelConfig& config, Matmul<T>& matmul)
    : width_(config.width),
      hidden_(config.hidden_width()),
      at_(BlockPlacesOf(config.architecture)),
      layers_(config, matmul),
      ops_(GetOps<T>()) {}

template <typename T>
void Perceptron<T>::Norm(const BlockUse<T>& use) const {
  layers_.Norm(use.params, at_.norm2, use.kept.middle, use.kept.norm2, use.kept.mean2,
               use.kept.rstd2, use.rows);
}

template <typename T>
void Perceptron<T>::ForwardHidden(const BlockUse<T>& use) const {
  Norm(use);
  Project(use);
  Activate(use);
}

template <typename T>
void Perceptron<T>::NormAndActivate(const BlockUse<T>& use) const {
  Norm(use);
  Activate(use);
}

template <typename T>
void Perceptron<T>::Forward(const BlockUse<T>& use) const {
  ForwardHidden(use);
  layers_.AddLinear(use, at_.down, use.kept.active, DropoutSite::kMlp, use.kept.middle, use.out(),
                    hidden_);
}

template <typename T>
void Perceptron<T>::Backward(const BlockUse<T>& use, GradientBuffers<T>& gradients) const {
  const BlockActivations<T>& kept = use.kept;
  const Numbers dy = layers_.BackwardAdd(use, at_.down, DropoutSite::kMlp, gradients);
  layers_.BackwardProducts(use, at_.down, kept.active, dy, gradients.wide(),
                           {use.rows, hidden_, width_});
  BackwardHidden(use, gradients);
  layers_.BackwardNorm(use.params, at_.norm2, kept.middle, kept.mean2, kept.rstd2, gradients,
                       use.rows);
}

template <typename T>
std::unique_ptr<Perceptron<T>> MakePerceptron(const ModelConfig& config, Matmul<T>& matmul) {
  if (config.architecture == Architecture::kLlama)
    return std::make_unique<GatedPerceptron<T>>(config, matmul);
  return std::make_unique<GeluPerceptron<T>>(config, matmul);
}

template class Perceptron<float>;
template class Perceptron<double>;
template std::unique_ptr<Perceptron<float>> MakePerceptron<float>(const ModelConfig&,
                                                                  Matmul<float>&);
template std::unique_ptr<Perceptron<double>> MakePerceptron<double>(const ModelConfig&,
                                                                    Matmul<double>&);

}  // namespace weft::trainer

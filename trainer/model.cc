#include "trainer/model.h"

#include <algorithm>
#include <stdexcept>

#include "trainer/rotation.h"

namespace weft::trainer {
namespace {

constexpr size_t kEmbeddingUnit = 0;

}  // namespace

template <typename T>
Model<T>::Model(const ModelConfig& config, size_t batch, Matmul<T>& matmul, UnitHooks<T>& hooks)
    : config_(config),
      ops_(GetOps<T>()),
      layers_(config, matmul),
      block_(config, matmul),
      head_(config, batch, matmul),
      params_(hooks),
      gradients_(config, batch, matmul.input_type()) {}

// The final norm, and the head where it is a part of the same unit, are left to the caller.
template <typename T>
void Model<T>::ForwardToHead(const Token* inputs, size_t batch, Activations<T>& kept) {
  if (kept.inputs() != input_type()) throw std::logic_error("activations of another precision");
  const size_t rows = batch * config_.seq;
  params_.EnterForward(kEmbeddingUnit);
  const Numbers tokens = params_.Matrix(kTokens);
  const Numbers positions =
      has_positions() ? params_.Matrix(kPositions) : Numbers(nullptr, tokens.type);
  ops_.embed(inputs, tokens, positions, kept.residual(0), batch, config_.seq, config_.width);
  params_.LeaveForward();
  DropEmbedding(kept.residual(0), rows, kept);
  for (size_t layer = 0; layer < config_.layers; layer++) {
    params_.EnterForward(layer + 1);
    block_.Forward(params_, kept, layer, batch);
    params_.LeaveForward();
  }
  params_.EnterForward(FinalUnit());
  layers_.Norm(params_, kFinalGain, kept.residual(config_.layers), kept.norm(), kept.mean(),
               kept.rstd(), rows);
}

// Or from its gradient.
template <typename T>
void Model<T>::DropEmbedding(T* x, size_t rows, const Activations<T>& kept) {
  const DropoutMask mask = kept.dropout().At(config_.layers, DropoutSite::kEmbedding, config_.seq);
  if (mask.threshold > 0) ops_.dropout(x, x, rows, config_.width, mask);
}

template <typename T>
template <typename Use>
void Model<T>::WithHead(const Use& use) {
  if (config_.tied_head) {
    params_.LeaveForward();
    params_.EnterForward(kEmbeddingUnit);
  }
  use(params_.Matrix(config_.tied_head ? size_t{kTokens} : config_.head_param()));
  params_.LeaveForward();
}

// The head has nothing to do yet; its unit is used all the same, so that training and evaluation
// use the units alike.
template <typename T>
void Model<T>::Forward(const Token* inputs, size_t batch, Activations<T>& kept,
                       const Dropout& dropout) {
  kept.set_dropout(dropout);
  ForwardToHead(inputs, batch, kept);
  WithHead([](Numbers) {});
}

template <typename T>
double Model<T>::Score(const Token* inputs, const Token* targets, size_t batch, size_t skip,
                       Activations<T>& kept) {
  double loss = 0;
  kept.set_dropout({});
  ForwardToHead(inputs, batch, kept);
  WithHead([&](Numbers weight) {
    for (size_t row = skip; row < batch * config_.seq; row += config_.seq) {
      loss += head_.Loss(weight, Numbers(kept.norm()).Rows(row, config_.width), targets + row,
                         config_.seq - skip);
    }
  });
  return loss;
}

template <typename T>
const T* Model<T>::Logits(const Token* inputs, size_t position, Activations<T>& kept) {
  const T* logits = nullptr;
  kept.set_dropout({});
  ForwardToHead(inputs, 1, kept);
  WithHead([&](Numbers weight) {
    logits = head_.Logits(weight, Numbers(kept.norm()).Rows(position, config_.width));
  });
  return logits;
}

// Its gradient is complete where nothing else adds to it.
template <typename T>
double Model<T>::BackwardHead(const Token* targets, size_t rows, double scale, Activations<T>& kept,
                              size_t weight) {
  const double loss = head_.Backward(params_.Matrix(weight), kept.norm(), targets, rows, scale,
                                     params_.MatrixGrad(weight), gradients_.norm());
  if (!config_.tied_head) params_.GradReady(weight);
  return loss;
}

template <typename T>
void Model<T>::BackwardFinal(size_t rows, Activations<T>& kept) {
  std::fill_n(gradients_.residual(), rows * config_.width, T(0));
  layers_.BackwardNorm(params_, kFinalGain, kept.residual(config_.layers), kept.mean(), kept.rstd(),
                       gradients_, rows);
}

template <typename T>
double Model<T>::Backward(const Token* inputs, const Token* targets, size_t batch, double scale,
                          Activations<T>& kept) {
  const size_t rows = batch * config_.seq;
  double loss = 0;
  if (config_.tied_head) {
    params_.EnterBackward(kEmbeddingUnit);
    loss = BackwardHead(targets, rows, scale, kept, kTokens);
    params_.LeaveBackward();
  }
  params_.EnterBackward(FinalUnit());
  if (!config_.tied_head) loss = BackwardHead(targets, rows, scale, kept, config_.head_param());
  BackwardFinal(rows, kept);
  params_.LeaveBackward();

  for (size_t layer = config_.layers; layer-- > 0;) {
    params_.EnterBackward(layer + 1);
    block_.Backward(params_, kept, gradients_, layer, batch);
    params_.LeaveBackward();
  }

  DropEmbedding(gradients_.residual(), rows, kept);
  params_.EnterBackward(kEmbeddingUnit);
  ops_.embed_backward(inputs, gradients_.residual(), params_.Grad(kTokens),
                      has_positions() ? params_.Grad(kPositions) : nullptr, batch, config_.seq,
                      config_.width);
  params_.GradReady(kTokens);
  if (has_positions()) params_.GradReady(kPositions);
  params_.LeaveBackward();
  return loss;
}

size_t WorkingBytes(const ModelConfig& config, size_t batch, Recompute recompute,
                    NumberType inputs) {
  return ActivationBytes(config, batch, recompute, inputs) +
         GradientBufferBytes(config, batch, inputs) +
         (HeadTileCount(config, batch) + RotationCount(config)) * sizeof(float);
}

template class Model<float>;
template class Model<double>;

}  // namespace weft::trainer

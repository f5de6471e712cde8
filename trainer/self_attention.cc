#include "trainer/self_attention.h"

#include "trainer/rotation.h"

namespace weft::trainer {

template <typename T>
SelfAttention<T>::SelfAttention(const ModelConfig& config, Matmul<T>& matmul)
    : config_(config),
      at_(BlockPlacesOf(config.architecture)),
      layers_(config, matmul),
      ops_(GetOps<T>()),
      rotation_(RotationTable<T>(config)) {}

template <typename T>
AttentionShape SelfAttention<T>::ShapeFor(size_t batch) const {
  return {batch, config_.seq, config_.heads, config_.head_dim(), config_.key_heads()};
}

template <typename T>
DropoutMask SelfAttention<T>::Mask(const BlockUse<T>& use) const {
  return use.all.dropout().At(use.layer, DropoutSite::kAttention, config_.heads * config_.seq);
}

template <typename T>
void SelfAttention<T>::Norm(const BlockUse<T>& use) const {
  layers_.Norm(use.params, at_.norm1, use.in(), use.kept.norm1, use.kept.mean1, use.kept.rstd1,
               use.rows);
}

template <typename T>
void SelfAttention<T>::Forward(const BlockUse<T>& use) const {
  const BlockActivations<T>& kept = use.kept;
  const AttentionShape shape = ShapeFor(use.batch);
  Norm(use);
  layers_.Linear(use, at_.qkv, kept.norm1, kept.qkv,
                 {use.rows, config_.width, config_.qkv_columns()});
  if (!rotation_.empty()) ops_.rotate(kept.qkv, rotation_.data(), shape, /*back=*/false);
  ops_.attention(kept.qkv, kept.mixed, kept.lse, shape, Mask(use));
  layers_.AddLinear(use, at_.projection, kept.mixed, DropoutSite::kProjection, use.in(),
                    kept.middle, config_.width);
}

template <typename T>
void SelfAttention<T>::Backward(const BlockUse<T>& use, GradientBuffers<T>& gradients) const {
  const size_t width = config_.width, columns = config_.qkv_columns();
  const BlockActivations<T>& kept = use.kept;
  const AttentionShape shape = ShapeFor(use.batch);
  const Numbers dy = layers_.BackwardAdd(use, at_.projection, DropoutSite::kProjection, gradients);
  const MutableNumbers dmixed = gradients.mixed(), dqkv = gradients.qkv();
  layers_.BackwardProducts(use, at_.projection, kept.mixed, dy, dmixed, {use.rows, width, width});
  ops_.attention_backward(kept.qkv, kept.mixed, kept.lse, dmixed, dqkv, shape, Mask(use));
  if (!rotation_.empty()) ops_.rotate(dqkv, rotation_.data(), shape, /*back=*/true);
  if (config_.architecture == Architecture::kGpt2)
    ops_.column_sum(dqkv, use.params.Grad(at_.qkv + 1), use.rows, columns);
  layers_.BackwardProducts(use, at_.qkv, kept.norm1, dqkv, gradients.norm(),
                           {use.rows, width, columns}, true);
  layers_.BackwardNorm(use.params, at_.norm1, use.in(), kept.mean1, kept.rstd1, gradients,
                       use.rows);
}

template class SelfAttention<float>;
template class SelfAttention<double>;

}  // namespace weft::trainer

#include "trainer/decoder.h"

#include <algorithm>
#include <stdexcept>

namespace weft::trainer {
namespace {

constexpr size_t kEmbeddingUnit = 0;

size_t ChunkOf(const ModelConfig& config) {
  return std::min(kDecoderChunk, config.seq);
}

size_t KeptNumbers(const ModelConfig& config) {
  return 2 * config.layers * config.seq * config.width;
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, UnitHooks<float>& hooks, size_t threads)
    : config_(config),
      threads_(threads),
      ops_(GetOps<float>()),
      decoder_ops_(GetDecoderOps()),
      matmul_(MakeMatmul<float>(Precision::kFp32)),
      params_(hooks),
      kept_(new float[KeptNumbers(config)]) {
  const size_t of_a_block = config.seq * config.width;
  for (size_t layer = 0; layer < config.layers; layer++) {
    float* const keys = kept_.get() + 2 * layer * of_a_block;
    cache_.push_back(
        {keys, keys + of_a_block, config.heads, config.width / config.heads, config.seq});
  }
  const size_t rows = ChunkOf(config), c = config.width;
  for (std::vector<float>* of_width : {&residual_, &norm_, &mixed_, &added_})
    of_width->resize(rows * c);
  mean_.resize(rows);
  rstd_.resize(rows);
  wide_.resize(rows * 4 * c);
  scores_.resize(config.heads * config.seq);
  logits_.resize(config.padded_vocabulary());
}

void Decoder::Embed(std::span<const Token> tokens) {
  params_.EnterForward(kEmbeddingUnit);
  Numbers positions = params_.Matrix(kPositions);
  positions.data = static_cast<const std::byte*>(positions.data) +
                   length_ * config_.width * BytesOf(positions.type);
  ops_.embed(tokens.data(), params_.Matrix(kTokens), positions, residual_.data(), 1, tokens.size(),
             config_.width);
  params_.LeaveForward();
}

void Decoder::Norm(const float* x, size_t gain, size_t rows) {
  ops_.layer_norm(x, params_.Vector(gain), params_.Vector(gain + 1), norm_.data(), mean_.data(),
                  rstd_.data(), rows, config_.width);
}

void Decoder::Linear(const float* x, size_t weight, float* y, const RowProductShape& shape,
                     size_t rows) {
  const float* const bias = params_.Vector(weight + 1);
  if (rows == 1) return decoder_ops_.product(x, params_.Matrix(weight), bias, y, shape, threads_);
  matmul_->Forward(x, params_.Matrix(weight), {bias}, y, {rows, shape.k, shape.n}, shape.transposed);
}

void Decoder::Block(size_t layer, size_t rows) {
  const size_t c = config_.width;
  float* const x = residual_.data();
  Norm(x, kNorm1Gain, rows);
  Linear(norm_.data(), kQkv, wide_.data(), {c, 3 * c, true}, rows);
  decoder_ops_.attend(wide_.data(), length_, rows, cache_[layer], mixed_.data(), scores_.data());
  Linear(mixed_.data(), kProjection, added_.data(), {c, c, false}, rows);
  ops_.add(x, added_.data(), x, rows * c);
  Norm(x, kNorm2Gain, rows);
  Linear(norm_.data(), kUp, wide_.data(), {c, 4 * c, true}, rows);
  ops_.gelu(wide_.data(), wide_.data(), rows, 4 * c);
  Linear(wide_.data(), kDown, added_.data(), {4 * c, c, false}, rows);
  ops_.add(x, added_.data(), x, rows * c);
}

const float* Decoder::Append(std::span<const Token> tokens) {
  const size_t rows = tokens.size(), c = config_.width;
  if (rows == 0 || rows > ChunkOf(config_) || rows > config_.seq - length_)
    throw std::invalid_argument("a decoder has no room for so many tokens at once");
  Embed(tokens);
  for (size_t layer = 0; layer < config_.layers; layer++) {
    params_.EnterForward(layer + 1);
    Block(layer, rows);
    params_.LeaveForward();
  }
  params_.EnterForward(config_.layers + 1);
  Norm(residual_.data() + (rows - 1) * c, kFinalGain, 1);
  if (config_.tied_head) {
    params_.LeaveForward();
    params_.EnterForward(kEmbeddingUnit);
  }
  decoder_ops_.product(norm_.data(),
                       params_.Matrix(config_.tied_head ? size_t{kTokens} : size_t{kHead}), nullptr,
                       logits_.data(), {c, config_.padded_vocabulary(), true}, threads_);
  params_.LeaveForward();
  length_ += rows;
  return logits_.data();
}

size_t DecoderNumbers(const ModelConfig& config) {
  return KeptNumbers(config) + ChunkOf(config) * (8 * config.width + 2) +
         config.heads * config.seq + config.padded_vocabulary();
}

}  // namespace weft::trainer

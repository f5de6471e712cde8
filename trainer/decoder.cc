#include "trainer/decoder.h"

#include <algorithm>
#include <stdexcept>

#include "trainer/rotation.h"

namespace weft::trainer {
namespace {

constexpr size_t kEmbeddingUnit = 0;

size_t ChunkOf(const ModelConfig& config) {
  return std::min(kDecoderChunk, config.seq);
}

size_t KeptNumbers(const ModelConfig& config) {
  return 2 * config.layers * config.seq * config.key_heads() * config.head_dim();
}

// Of a row: queries, keys and values, and then the inside of the perceptron.
size_t WideRow(const ModelConfig& config) {
  return std::max(config.qkv_columns(), config.hidden_width());
}

size_t GateRow(const ModelConfig& config) {
  return config.architecture == Architecture::kLlama ? config.hidden_width() : 0;
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, UnitHooks<float>& hooks, size_t threads)
    : config_(config),
      llama_(config.architecture == Architecture::kLlama),
      at_(BlockPlacesOf(config.architecture)),
      threads_(threads),
      rotation_(RotationTable<float>(config)),
      ops_(GetOps<float>()),
      decoder_ops_(GetDecoderOps()),
      matmul_(MakeMatmul<float>(Precision::kFp32)),
      params_(hooks),
      kept_(new float[KeptNumbers(config)]) {
  const size_t of_a_block = KeptNumbers(config) / config.layers / 2;
  for (size_t layer = 0; layer < config.layers; layer++) {
    float* const keys = kept_.get() + 2 * layer * of_a_block;
    cache_.push_back({keys, keys + of_a_block, config.key_heads(), config.head_dim(), config.seq,
                      config.heads / config.key_heads()});
  }
  const size_t rows = ChunkOf(config), c = config.width;
  for (std::vector<float>* of_width : {&residual_, &norm_, &mixed_, &added_})
    of_width->resize(rows * c);
  mean_.resize(rows);
  rstd_.resize(rows);
  wide_.resize(rows * WideRow(config));
  gate_.resize(rows * GateRow(config));
  scores_.resize(config.heads * config.seq);
  logits_.resize(config.padded_vocabulary());
}

void Decoder::Embed(std::span<const Token> tokens) {
  params_.EnterForward(kEmbeddingUnit);
  const Numbers table = params_.Matrix(kTokens);
  const Numbers positions = llama_ ? Numbers(nullptr, table.type)
                                   : params_.Matrix(kPositions).Rows(length_, config_.width);
  ops_.embed(tokens.data(), table, positions, residual_.data(), 1, tokens.size(), config_.width);
  params_.LeaveForward();
}

void Decoder::Norm(const float* x, size_t gain, size_t rows) {
  if (llama_) {
    return ops_.rms_norm(x, params_.Vector(gain), config_.norm_epsilon, norm_.data(), rstd_.data(),
                         rows, config_.width);
  }
  ops_.layer_norm(x, params_.Vector(gain), params_.Vector(gain + 1), norm_.data(), mean_.data(),
                  rstd_.data(), rows, config_.width);
}

void Decoder::Linear(const float* x, size_t weight, float* y, const RowProductShape& shape,
                     size_t rows) {
  const float* const bias = llama_ ? nullptr : params_.Vector(weight + 1);
  if (rows == 1) return decoder_ops_.product(x, params_.Matrix(weight), bias, y, shape, threads_);
  matmul_->Forward(x, params_.Matrix(weight), {bias}, y, {rows, shape.k, shape.n},
                   shape.transposed);
}

void Decoder::Attend(size_t layer, size_t rows) {
  if (!rotation_.empty()) {
    ops_.rotate(wide_.data(), rotation_.data() + length_ * config_.head_dim(),
                {1, rows, config_.heads, config_.head_dim(), config_.key_heads()}, /*back=*/false);
  }
  decoder_ops_.attend(wide_.data(), length_, rows, cache_[layer], mixed_.data(), scores_.data());
}

void Decoder::Block(size_t layer, size_t rows) {
  const size_t c = config_.width, hidden = config_.hidden_width();
  float* const x = residual_.data();
  Norm(x, at_.norm1, rows);
  Linear(norm_.data(), at_.qkv, wide_.data(), {c, config_.qkv_columns(), true}, rows);
  Attend(layer, rows);
  Linear(mixed_.data(), at_.projection, added_.data(), {c, c, false}, rows);
  ops_.add(x, added_.data(), x, rows * c);
  Norm(x, at_.norm2, rows);
  Linear(norm_.data(), at_.up, wide_.data(), {c, hidden, true}, rows);
  if (llama_) {
    Linear(norm_.data(), at_.gate, gate_.data(), {c, hidden, true}, rows);
    ops_.swiglu(gate_.data(), wide_.data(), wide_.data(), rows, hidden);
  } else {
    ops_.gelu(wide_.data(), wide_.data(), rows, hidden);
  }
  Linear(wide_.data(), at_.down, added_.data(), {hidden, c, false}, rows);
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
                       params_.Matrix(config_.tied_head ? size_t{kTokens} : config_.head_param()),
                       nullptr, logits_.data(), {c, config_.padded_vocabulary(), true}, threads_);
  params_.LeaveForward();
  length_ += rows;
  return logits_.data();
}

size_t DecoderNumbers(const ModelConfig& config) {
  const size_t of_a_row = 4 * config.width + WideRow(config) + GateRow(config) + 2;
  return KeptNumbers(config) + ChunkOf(config) * of_a_row + config.heads * config.seq +
         config.padded_vocabulary() + RotationCount(config);
}

}  // namespace weft::trainer

// Two tables for each architecture say how large each matrix of a block is and from which level on
// it is computed again, for the memory and for the plan.
#include "trainer/activations.h"

#include <algorithm>
#include <vector>

namespace weft::trainer {
namespace {

template <typename T, typename Pointer>
struct Matrix {
  Pointer BlockActivations<T>::*at;
  size_t columns;
  Recompute again_from;  // this level on
};

// Of the type of the products' inputs.
template <typename T>
std::vector<Matrix<T, MutableNumbers>> InputsOf(const ModelConfig& config) {
  using Block = BlockActivations<T>;
  const size_t c = config.width, hidden = config.hidden_width();
  std::vector<Matrix<T, MutableNumbers>> all = {
      {&Block::norm1, c, Recompute::kSelective},
      {&Block::qkv, config.qkv_columns(), Recompute::kFull},
      {&Block::mixed, c, Recompute::kFull},
      {&Block::norm2, c, Recompute::kSelective},
      {&Block::hidden, hidden, Recompute::kFull},
      {&Block::active, hidden, Recompute::kSelective}};
  if (config.architecture == Architecture::kLlama)
    all.push_back({&Block::gate, hidden, Recompute::kFull});
  return all;
}

// Of T.
template <typename T>
std::vector<Matrix<T, T*>> OthersOf(const ModelConfig& config) {
  using Block = BlockActivations<T>;
  std::vector<Matrix<T, T*>> all = {{&Block::rstd1, 1, Recompute::kFull},
                                    {&Block::lse, config.heads, Recompute::kFull},
                                    {&Block::middle, config.width, Recompute::kFull},
                                    {&Block::rstd2, 1, Recompute::kFull}};
  if (config.architecture == Architecture::kGpt2) {
    all.push_back({&Block::mean1, 1, Recompute::kFull});
    all.push_back({&Block::mean2, 1, Recompute::kFull});
  }
  return all;
}

// Sum of size(columns) over all blocks' matrices.
template <typename Matrices, typename Size>
size_t SumOf(const Matrices& matrices, size_t layers, Recompute recompute, const Size& size) {
  size_t sum = 0;
  for (const auto& matrix : matrices)
    sum += (recompute < matrix.again_from ? layers : 1) * size(matrix.columns);
  return sum;
}

// Gives each block its own matrices, or those that all share. take(columns): one of them.
template <typename T, typename Matrices, typename Take>
void Deal(std::vector<BlockActivations<T>>& blocks, const Matrices& matrices, Recompute recompute,
          const Take& take) {
  for (const auto& matrix : matrices) {
    for (size_t i = 0; i < blocks.size(); i++) {
      blocks[i].*matrix.at =
          i == 0 || recompute < matrix.again_from ? take(matrix.columns) : blocks[0].*matrix.at;
    }
  }
}

}  // namespace

size_t InputStride(size_t columns, NumberType type) {
  constexpr size_t kLine = 64;
  return columns + kLine / BytesOf(type);
}

template <typename T>
Activations<T>::Activations(const ModelConfig& config, size_t batch, Recompute recompute,
                            NumberType inputs)
    : recompute_(recompute), inputs_(inputs), blocks_(config.layers) {
  const size_t rows = batch * config.seq;
  for (size_t layer = 0; layer <= config.layers; layer++)
    residual_.push_back(Take(rows * config.width));
  Deal(blocks_, InputsOf<T>(config), recompute,
       [&](size_t columns) { return TakeInput(rows, columns); });
  Deal(blocks_, OthersOf<T>(config), recompute,
       [&](size_t columns) { return Take(rows * columns); });
  norm_ = TakeInput(rows, config.width);
  mean_ = Take(rows);
  rstd_ = Take(rows);
}

template <typename T>
void* Activations<T>::TakeBytes(size_t bytes) {
  memory_.emplace_back(bytes);
  return memory_.back().data();
}

template <typename T>
T* Activations<T>::Take(size_t count) {
  return static_cast<T*>(TakeBytes(count * sizeof(T)));
}

template <typename T>
MutableNumbers Activations<T>::TakeInput(size_t rows, size_t columns) {
  const size_t stride = InputStride(columns, inputs_);
  return {TakeBytes(rows * stride * BytesOf(inputs_)), inputs_, stride};
}

size_t ActivationBytes(const ModelConfig& config, size_t batch, Recompute recompute,
                       NumberType inputs) {
  const auto input = [&](size_t columns) {
    return InputStride(columns, inputs) * BytesOf(inputs);
  };
  const auto other = [](size_t columns) {
    return columns * sizeof(float);
  };
  const size_t of_blocks = SumOf(InputsOf<float>(config), config.layers, recompute, input) +
                           SumOf(OthersOf<float>(config), config.layers, recompute, other);
  const size_t around = input(config.width) + (config.layers + 1) * other(config.width) + other(2);
  return batch * config.seq * (of_blocks + around);
}

namespace {

// Where the gradients of a perceptron's inside are, and of what goes out of attention.
size_t WideColumns(const ModelConfig& config) {
  return std::max(config.hidden_width(), config.width);
}

size_t GateColumns(const ModelConfig& config) {
  return config.architecture == Architecture::kLlama ? config.hidden_width() : 0;
}

}  // namespace

template <typename T>
GradientBuffers<T>::GradientBuffers(const ModelConfig& config, size_t batch, NumberType inputs)
    : width_(config.width),
      hidden_(config.hidden_width()),
      qkv_columns_(config.qkv_columns()),
      inputs_(inputs) {
  const size_t rows = batch * config.seq;
  const auto bytes = [&](size_t columns) {
    return columns == 0 ? 0 : rows * InputStride(columns, inputs) * BytesOf(inputs);
  };
  residual_.resize(rows * width_);
  norm_.resize(rows * width_);
  output_.resize(bytes(width_));
  wide_.resize(bytes(WideColumns(config)));
  gate_.resize(bytes(GateColumns(config)));
  qkv_.resize(bytes(qkv_columns_));
}

template <typename T>
MutableNumbers GradientBuffers<T>::Input(AlignedVector<std::byte>& memory, size_t columns) const {
  return {memory.data(), inputs_, InputStride(columns, inputs_)};
}

size_t GradientBufferBytes(const ModelConfig& config, size_t batch, NumberType inputs) {
  size_t of_inputs = InputStride(config.width, inputs) + InputStride(WideColumns(config), inputs) +
                     InputStride(config.qkv_columns(), inputs);
  if (GateColumns(config) > 0) of_inputs += InputStride(GateColumns(config), inputs);
  return batch * config.seq * (2 * config.width * sizeof(float) + of_inputs * BytesOf(inputs));
}

template class Activations<float>;
template class Activations<double>;
template class GradientBuffers<float>;
template class GradientBuffers<double>;

}  // namespace weft::trainer

#include "trainer/block.h"

#include "trainer/gpt_block.h"
#include "trainer/llama_block.h"

namespace weft::trainer {

template <typename T>
std::unique_ptr<Block<T>> MakeBlock(const ModelConfig& config, Matmul<T>& matmul) {
  if (config.architecture == Architecture::kLlama)
    return std::make_unique<LlamaBlock<T>>(config, matmul);
  return std::make_unique<GptBlock<T>>(config, matmul);
}

template std::unique_ptr<Block<float>> MakeBlock<float>(const ModelConfig&, Matmul<float>&);
template std::unique_ptr<Block<double>> MakeBlock<double>(const ModelConfig&, Matmul<double>&);

}  // namespace weft::trainer

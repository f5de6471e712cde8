#include "trainer/model_sizes.h"

#include <algorithm>
#include <array>

#include "trainer/config.h"
#include "trainer/failure.h"

namespace weft::trainer {
namespace {

struct Size {
  const char* name;
  ModelConfig model;
};

constexpr ModelConfig OfBytes(size_t layers, size_t width, size_t heads) {
  return {.seq = 256, .width = width, .layers = layers, .heads = heads};
}

// Language Models are Unsupervised Multitask Learners (Radford et al. 2019), table 2; the count of
// heads and the initial values are those of its published source.
constexpr ModelConfig Gpt2(size_t layers, size_t width, size_t heads) {
  return {.vocabulary = 50257,
          .seq = 1024,
          .width = width,
          .layers = layers,
          .heads = heads,
          .positions = Positions::kNormal,
          .deviation = 0.02};
}

// Those of llama2.c's stories: 15M and 110M parameters.
constexpr ModelConfig Llama(size_t layers, size_t width, size_t heads, size_t seq) {
  return {.vocabulary = 32000,
          .seq = seq,
          .width = width,
          .layers = layers,
          .heads = heads,
          .deviation = 0.02,
          .architecture = Architecture::kLlama};
}

// Llama 3.2 1B, whose positions are scaled there for texts of more than 8192 tokens.
constexpr ModelConfig Llama1b() {
  ModelConfig model = Llama(16, 2048, 32, kSeqMax);
  model.vocabulary = 128256;
  model.kv_heads = 8;
  model.hidden = 8192;
  model.rope_theta = 500000;
  return model;
}

constexpr std::array<Size, 13> kSizes = {{{"1m", ModelConfig()},
                                          {"3m", OfBytes(6, 192, 6)},
                                          {"11m", OfBytes(6, 384, 6)},
                                          {"25m", OfBytes(8, 512, 8)},
                                          {"50m", OfBytes(10, 640, 10)},
                                          {"85m", OfBytes(12, 768, 12)},
                                          {"gpt2", Gpt2(12, 768, 12)},
                                          {"gpt2-medium", Gpt2(24, 1024, 16)},
                                          {"gpt2-large", Gpt2(36, 1280, 20)},
                                          {"gpt2-xl", Gpt2(48, 1600, 25)},
                                          {"llama-15m", Llama(6, 288, 6, 256)},
                                          {"llama-110m", Llama(12, 768, 12, 1024)},
                                          {"llama-1b", Llama1b()}}};

}  // namespace

ModelConfig ModelOfSize(const std::string& name) {
  for (const Size& size : kSizes) {
    if (name == size.name) return size.model;
  }
  throw BadInput("--model " + name + " is unknown; use " + SizeNames() +
                 ", or --layers, --width and --heads");
}

std::string NameOfSize(const ModelConfig& model) {
  const auto found = std::find_if(kSizes.begin(), kSizes.end(), [&](const Size& size) {
    return WithModelDefaults(size.model) == WithModelDefaults(model);
  });
  return found == kSizes.end() ? kCustomSize : found->name;
}

std::string SizeNames() {
  std::string names;
  for (const Size& size : kSizes)
    names += (names.empty() ? "" : ", ") + std::string(size.name);
  return names;
}

}  // namespace weft::trainer

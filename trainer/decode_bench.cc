// What a token of a sample takes, beside its bound and beside a forward of the whole window.
//
//   OMP_NUM_THREADS=1 build/release/bench/decode_bench [MODEL] [WEIGHTS] [POSITION] [BLOCKS]
//   build/release/bench/decode_bench gpt2 fp32 512 20
//
// A block is one read of all weights that a token needs, one token of the decoder at POSITION, and,
// every tenth block, the logits of the whole window; medians are printed as JSON. The bound: bytes
// of the weights over the rate of the read.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/standard_fds.h"
#include "trainer/decoder.h"
#include "trainer/failure.h"
#include "trainer/model.h"
#include "trainer/model_sizes.h"

namespace weft::trainer {
namespace {

// Parameters in memory, as many bytes apart as they have.
class Weights : public UnitHooks<float> {
 public:
  Weights(const ModelConfig& config, NumberType type) : bytes_of_(BytesOf(type)) {
    const std::vector<UnitSpec> units = ModelUnits(config);
    memory_.resize(ParameterCount(units) * bytes_of_ / sizeof(uint64_t) + 1);
    std::byte* at = reinterpret_cast<std::byte*>(memory_.data());
    std::vector<float> values;
    for (const UnitSpec& unit : units) {
      std::vector<ParamView<float>>& views = views_.emplace_back();
      for (const ParamSpec& spec : unit.params) {
        const size_t count = spec.Count();
        values.assign(count, 0.02f);
        for (size_t i = 0; i < count; i++)
          values[i] = float(i * 2654435761u % 1000) * 4e-5f - 0.02f;
        if (type == NumberType::kFloat32) {
          std::copy(values.begin(), values.end(), reinterpret_cast<float*>(at));
        } else {
          const Ops<float>& ops = GetOps<float>();
          auto* const halves = reinterpret_cast<uint16_t*>(at);
          (type == NumberType::kBf16 ? ops.to_bf16 : ops.to_fp16)(values.data(), halves, count);
        }
        views.push_back({{at, type}, nullptr, count});
        at += count * bytes_of_;
      }
    }
    skipped_ = config.seq * config.width * bytes_of_;  // a row of it is read
  }

  UnitView<float> PreForward(size_t unit) override { return views_[unit]; }

  void PostForward(size_t) override {}

  UnitView<float> PreBackward(size_t unit) override { return views_[unit]; }

  void GradReady(size_t, size_t) override {}

  void PostBackward(size_t) override {}

  size_t bytes() const { return memory_.size() * sizeof(uint64_t) - skipped_; }

  // Reads as many bytes as a token does, in several streams.
  uint64_t Read() const {
    typedef uint64_t Line __attribute__((vector_size(64)));
    constexpr size_t kStreams = 4;
    const size_t count = bytes() / sizeof(Line) / kStreams;
    Line all[kStreams] = {};
    for (size_t i = 0; i < count; i++) {
      for (size_t s = 0; s < kStreams; s++) {
        Line line;
        std::memcpy(&line, memory_.data() + (s * count + i) * sizeof line / sizeof memory_[0],
                    sizeof line);
        all[s] ^= line;
      }
    }
    return (all[0] ^ all[1] ^ all[2] ^ all[3])[0];
  }

 private:
  const size_t bytes_of_;
  size_t skipped_ = 0;
  std::vector<uint64_t> memory_;
  std::vector<std::vector<ParamView<float>>> views_;
};

template <typename Function>
double Seconds(const Function& function) {
  const auto start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

NumberType TypeOf(const std::string& name) {
  if (name == "bf16") return NumberType::kBf16;
  return name == "fp16" ? NumberType::kFp16 : NumberType::kFloat32;
}

int Run(const std::string& model, const std::string& type, size_t position, int blocks) {
  const ModelConfig config = ModelOfSize(model);
  Weights weights(config, TypeOf(type));
  Decoder decoder(config, weights, /*threads=*/1);
  const std::vector<Token> text(config.seq, Token{65});
  const std::unique_ptr<Matmul<float>> matmul = MakeMatmul<float>(Precision::kFp32);
  Model<float> whole(config, 1, *matmul, weights);
  Activations<float> kept(config, 1, Recompute::kFull, whole.input_type());
  std::vector<double> read_s, token_s, whole_s;
  uint64_t seen = 0;
  for (int block = 0; block < blocks; block++) {
    if (block % 10 == 0)
      whole_s.push_back(Seconds([&] { whole.Logits(text.data(), config.seq - 1, kept); }));
    decoder.Forget();
    while (decoder.length() < std::min(position, config.seq - 1)) {
      const size_t left = std::min(position, config.seq - 1) - decoder.length();
      decoder.Append(std::span(text).first(std::min(left, kDecoderChunk)));
    }
    read_s.push_back(Seconds([&] { seen ^= weights.Read(); }));
    token_s.push_back(Seconds([&] { decoder.Append(std::span(text).first(1)); }));
  }
  const double read = Median(read_s), token = Median(token_s);
  std::printf(
      "{\"model\": \"%s\", \"weights\": \"%s\", \"position\": %zu, \"blocks\": %d,\n"
      " \"weight_bytes\": %zu, \"read_gb_s\": %.2f, \"bound_ms\": %.3f, \"token_ms\": %.3f, "
      "\"of_bound\": %.3f, \"whole_window_ms\": %.1f, \"read\": %d}\n",
      model.c_str(), type.c_str(), position, blocks, weights.bytes(),
      double(weights.bytes()) / read * 1e-9, read * 1e3, token * 1e3, token / read,
      Median(whole_s) * 1e3, int(seen & 1));
  return 0;
}

}  // namespace
}  // namespace weft::trainer

int main(int argc, char** argv) {
  weft::HoldStandardFds();
  const auto word = [&](int index, const char* otherwise) {
    return std::string(argc > index ? argv[index] : otherwise);
  };
  try {
    return weft::trainer::Run(word(1, "gpt2"), word(2, "fp32"),
                              size_t(std::atol(word(3, "512").c_str())),
                              std::atoi(word(4, "20").c_str()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "decode_bench: %s\n", error.what());
    return 1;
  }
}

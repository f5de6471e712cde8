#include "trainer/decoder.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trainer/isas.h"
#include "tests/trainer/rank_threads.h"
#include "tests/trainer/training_run.h"
#include "trainer/decoder_ops.h"
#include "trainer/failure.h"
#include "trainer/model.h"
#include "trainer/random.h"
#include "trainer/token_choice.h"
#include "trainer/train.h"

namespace weft::trainer::decoder_test {
namespace {

std::vector<float> Values(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; i++)
    values[i] = float(2 * UniformAt(seed, i) - 1);
  return values;
}

// Numbers of a type, which lie in memory of their own.
struct Typed {
  std::vector<float> whole;
  std::vector<uint16_t> half;
  NumberType type;

  Typed(std::vector<float> values, NumberType as) : whole(std::move(values)), type(as) {
    if (as == NumberType::kFloat32) return;
    const Ops<float>& ops = GetOps<float>();
    half.resize(whole.size());
    (as == NumberType::kBf16 ? ops.to_bf16 : ops.to_fp16)(whole.data(), half.data(), half.size());
    ops.widen({half.data(), as}, whole.data(), whole.size());  // what is meant by them
  }

  Numbers numbers() const {
    return {half.empty() ? static_cast<const void*>(whole.data()) : half.data(), type};
  }
};

constexpr NumberType kTypes[] = {NumberType::kFloat32, NumberType::kBf16, NumberType::kFp16};

// Every test runs on every instruction set of this machine.
class DecoderOpsTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!IsaSupported(GetParam())) GTEST_SKIP() << "this CPU lacks the instructions";
  }

  const DecoderOps& ops() const { return DecoderOpsFor(GetParam()); }
};

void ExpectProductOfARow(const DecoderOps& ops, NumberType type, const RowProductShape& shape) {
  const size_t k = shape.k, n = shape.n;
  SCOPED_TRACE(testing::Message() << "type " << int(type) << " transposed " << shape.transposed
                                  << " k " << k << " n " << n);
  const std::vector<float> x = Values(k, 1), bias = Values(n, 2);
  const Typed w(Values(k * n, 3), type);
  std::vector<float> y(n), plain(n), in_parts(n);
  ops.product(x.data(), w.numbers(), bias.data(), y.data(), shape, 1);
  ops.product(x.data(), w.numbers(), nullptr, plain.data(), shape, 1);
  for (size_t j = 0; j < n; j++) {
    double sum = 0;
    for (size_t i = 0; i < k; i++)
      sum += double(x[i]) * double(w.whole[shape.transposed ? j * k + i : i * n + j]);
    ASSERT_NEAR(plain[j], sum, 1e-7 * double(k) + 1e-7) << j;
    ASSERT_NEAR(y[j], sum + double(bias[j]), 1e-7 * double(k) + 2e-7) << j;
  }
  for (const size_t parts : {2, 3, 7}) {
    ops.product(x.data(), w.numbers(), bias.data(), in_parts.data(), shape, parts);
    ASSERT_EQ(in_parts, y) << parts;
  }
}

TEST_P(DecoderOpsTest, ProductOfARowWithWeightsOfEachTypeAndLayout) {
  for (const NumberType type : kTypes) {
    for (const bool transposed : {true, false}) {
      for (const size_t k : {1, 7, 8, 31, 32, 33, 100}) {
        for (const size_t n : {1, 3, 16, 33, 64, 131})
          ExpectProductOfARow(ops(), type, {k, n, transposed});
      }
    }
  }
}

TEST_P(DecoderOpsTest, WeightsOf16BitsAreWhatTheyAreWherePowersEnd) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // The least and the largest float16, some in between, and what is none.
  const std::vector<float> of_fp16 = {0x1p-24f, -0x1p-24f, 0x1.ff8p-15f, 0x1p-14f,
                                      -65504,   1,         -0.0f};
  std::vector<float> values = of_fp16;
  values.resize(40, 0x1.8p-20f);
  for (const NumberType type : {NumberType::kFp16, NumberType::kBf16}) {
    for (const float extra : {0.0f, kInfinity, -kInfinity, std::nanf("")}) {
      values[37] = extra;
      const Typed w(values, type);
      // A column each: what comes out are the weights.
      std::vector<float> y(values.size());
      const float one = 1;
      ops().product(&one, w.numbers(), nullptr, y.data(), {1, y.size(), false}, 1);
      for (size_t i = 0; i < y.size(); i++) {
        if (std::isnan(w.whole[i])) {
          EXPECT_TRUE(std::isnan(y[i])) << i;
        } else {
          EXPECT_EQ(y[i], w.whole[i]) << i;
        }
      }
    }
  }
}

// What a head of the token at `position` makes of qkv, [tokens, heads, 3, dim].
std::vector<double> AttentionOf(const std::vector<float>& qkv, size_t heads, size_t dim,
                                size_t position, size_t head) {
  const auto at = [&](size_t token, size_t which, size_t i) {
    return double(qkv[((token * heads + head) * 3 + which) * dim + i]);
  };
  std::vector<double> p, out(dim);
  double sum = 0;
  for (size_t j = 0; j <= position; j++) {
    double score = 0;
    for (size_t i = 0; i < dim; i++)
      score += at(position, 0, i) * at(j, 1, i);
    p.push_back(std::exp(score / std::sqrt(double(dim))));
    sum += p.back();
  }
  for (size_t j = 0; j <= position; j++) {
    for (size_t i = 0; i < dim; i++)
      out[i] += p[j] / sum * at(j, 2, i);
  }
  return out;
}

TEST_P(DecoderOpsTest, AttentionSeesWhatIsKeptAndItsOwnChunkUpToItself) {
  constexpr size_t kCapacity = 40;
  for (const size_t dim : {1, 5, 16, 33}) {
    for (const size_t heads : {1, 3}) {
      SCOPED_TRACE(testing::Message() << "dim " << dim << " heads " << heads);
      const size_t width = heads * dim;
      const std::vector<float> qkv = Values(kCapacity * 3 * width, 5);
      std::vector<float> keys(kCapacity * width, std::nanf("")), values = keys;
      std::vector<float> out(kCapacity * width), scores(heads * kCapacity);
      const KeyValueCache cache = {keys.data(), values.data(), heads, dim, kCapacity};
      size_t first = 0;
      for (const size_t rows : {1, 5, 1, 1, 17, 15}) {
        ops().attend(qkv.data() + first * 3 * width, first, rows, cache, out.data() + first * width,
                     scores.data());
        first += rows;
      }
      ASSERT_EQ(first, kCapacity);
      for (size_t t = 0; t < kCapacity; t++) {
        for (size_t head = 0; head < heads; head++) {
          const std::vector<double> expected = AttentionOf(qkv, heads, dim, t, head);
          for (size_t i = 0; i < dim; i++)
            ASSERT_NEAR(out[(t * heads + head) * dim + i], expected[i], 2e-6) << t << " " << head;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DecoderOpsTest, testing::ValuesIn(kIsas));

// Parameters of a type, larger than usual, so that each of them is felt, and the calls that were
// made.
class TypedParams : public UnitHooks<float> {
 public:
  TypedParams(const ModelConfig& config, NumberType type) {
    uint64_t seed = 100;
    for (const UnitSpec& unit : ModelUnits(config)) {
      params_.emplace_back();
      for (const ParamSpec& spec : unit.params) {
        std::vector<float> values = Values(spec.Count(), seed++);
        const double scale = spec.shape.size() == 2 ? 1.7 / std::sqrt(double(config.width)) : 0.3;
        for (float& value : values)
          value = float(spec.mean + scale * double(value));
        params_.back().emplace_back(std::move(values), type);
      }
    }
    views_.resize(params_.size());
  }

  UnitView<float> PreForward(size_t unit) override {
    calls.push_back("pre " + std::to_string(unit));
    views_[unit].clear();
    for (const Typed& param : params_[unit])
      views_[unit].push_back({param.numbers(), nullptr, param.whole.size()});
    return views_[unit];
  }

  void PostForward(size_t unit) override { calls.push_back("post " + std::to_string(unit)); }

  UnitView<float> PreBackward(size_t) override { return {}; }

  void GradReady(size_t, size_t) override {}

  void PostBackward(size_t) override {}

  // By param, in the order of ModelUnits.
  void Set(const std::vector<std::vector<float>>& values) {
    size_t next = 0;
    for (std::vector<Typed>& unit : params_) {
      for (Typed& param : unit)
        param = Typed(values[next++], param.type);
    }
  }

  std::vector<std::string> calls;

 private:
  std::vector<std::vector<Typed>> params_;  // by unit
  std::vector<std::vector<ParamView<float>>> views_;
};

// Odd in all that may be odd; longer than a chunk.
ModelConfig Shape(bool tied) {
  return {.vocabulary = 77,
          .seq = 2 * kDecoderChunk + 5,
          .width = 39,
          .layers = 3,
          .heads = 3,
          .tied_head = tied,
          .vocabulary_multiple = 4};
}

// Heads that share keys and values.
ModelConfig LlamaShape(bool tied) {
  ModelConfig config = Shape(tied);
  config.architecture = Architecture::kLlama;
  config.width = 30;
  config.heads = 3;
  config.kv_heads = 1;
  config.hidden = 53;
  config.norm_epsilon = 1e-3;
  return config;
}

std::vector<Token> Text(size_t count, size_t vocabulary) {
  std::vector<Token> text(count);
  for (size_t i = 0; i < count; i++)
    text[i] = Token(BitsAt(7, i) % vocabulary);
  return text;
}

// The whole window's forward.
class Whole {
 public:
  Whole(const ModelConfig& config, UnitHooks<float>& params, Precision precision = Precision::kFp32)
      : config_(config),
        matmul_(MakeMatmul<float>(precision)),
        model_(config, 1, *matmul_, params),
        kept_(config, 1, Recompute::kNone, model_.input_type()) {}

  // After text[position], which is in the window that begins it.
  std::vector<float> Logits(std::vector<Token> text, size_t position) {
    text.resize(config_.seq);
    const float* const logits = model_.Logits(text.data(), position, kept_);
    return {logits, logits + config_.padded_vocabulary()};
  }

 private:
  const ModelConfig config_;
  const std::unique_ptr<Matmul<float>> matmul_;
  Model<float> model_;
  Activations<float> kept_;
};

// The largest difference, as a part of the largest logit.
double Difference(const float* got, const std::vector<float>& expected) {
  double largest = 0, difference = 0;
  for (size_t i = 0; i < expected.size(); i++) {
    largest = std::max(largest, std::abs(double(expected[i])));
    difference = std::max(difference, std::abs(double(got[i]) - double(expected[i])));
  }
  return difference / largest;
}

// Positions that are looked at: all near the beginning and the ends of chunks, where something may
// change, and some between.
bool IsLookedAt(size_t position, size_t seq) {
  const size_t in_chunk = position % kDecoderChunk;
  return position < 20 || in_chunk < 2 || in_chunk + 2 > kDecoderChunk || position + 1 == seq ||
         position % 11 == 0;
}

void ExpectLogitsOfTheWholeWindow(const ModelConfig& config, NumberType type) {
  TypedParams params(config, type);
  Whole whole(config, params);
  Decoder decoder(config, params, 1);
  const std::vector<Token> text = Text(config.seq, config.vocabulary);
  for (size_t t = 0; t < config.seq; t++) {
    const float* const logits = decoder.Append({&text[t], 1});
    ASSERT_LE(Difference(logits, whole.Logits(text, t)), 1e-5) << t;
  }
  EXPECT_EQ(decoder.length(), config.seq);
}

TEST(Decoder, HasTheLogitsOfTheWholeWindowAtEveryPosition) {
  for (const bool tied : {true, false}) {
    for (const NumberType type : kTypes) {
      for (ModelConfig config : {Shape(tied), LlamaShape(tied)}) {
        SCOPED_TRACE(testing::Message() << "tied " << tied << " type " << int(type)
                                        << " architecture " << int(config.architecture));
        config.seq = 37;
        ExpectLogitsOfTheWholeWindow(config, type);
      }
    }
  }
}

void ExpectAnyChunksToGiveTheSame(const ModelConfig& config) {
  TypedParams params(config, NumberType::kBf16);
  Whole whole(config, params);
  Decoder decoder(config, params, 2);
  const std::vector<Token> text = Text(config.seq, config.vocabulary);
  for (const size_t chunk : {size_t{2}, size_t{5}, size_t{31}, kDecoderChunk}) {
    decoder.Forget();
    for (size_t at = 0; at < text.size(); at += std::min(chunk, text.size() - at)) {
      const std::span<const Token> part =
          std::span(text).subspan(at, std::min(chunk, text.size() - at));
      const float* const logits = decoder.Append(part);
      const size_t last = at + part.size() - 1;
      if (IsLookedAt(last, config.seq) || chunk > 5) {
        ASSERT_LE(Difference(logits, whole.Logits(text, last)), 1e-5) << chunk << " " << last;
      }
    }
  }
}

TEST(Decoder, TakesAPromptInChunksOfAnySize) {
  ExpectAnyChunksToGiveTheSame(Shape(false));
  ExpectAnyChunksToGiveTheSame(LlamaShape(false));
}

// A product of bfloat16 rounds both inputs, by 2^-9 of each at most. Where roundings of a sum are
// independent, the sum's is about that of a term times the square root of 2 x 2; of the residual
// stream each of 2 products of a layer adds its part, and the head one more: sqrt(2 x 3 + 1) x 2 x
// 2^-9 = 1e-2 of a typical logit, which the largest one is 2 or 3 times as large as. Measured:
// 7e-3.
TEST(Decoder, DiffersFromBfloat16ProductsByTheirRounding) {
  if (!PrecisionSupported(Precision::kBf16)) GTEST_SKIP() << "this CPU has no bfloat16 products";
  ModelConfig config = Shape(true);
  config.seq = 37;
  TypedParams params(config, NumberType::kFloat32);
  Whole whole(config, params, Precision::kBf16);
  Decoder decoder(config, params, 1);
  const std::vector<Token> text = Text(config.seq, config.vocabulary);
  double largest = 0;
  for (size_t t = 0; t < config.seq; t++)
    largest = std::max(largest, Difference(decoder.Append({&text[t], 1}), whole.Logits(text, t)));
  EXPECT_LE(largest, 2e-2);
  EXPECT_GT(largest, 1e-5) << "bfloat16 was not used";
}

TEST(Decoder, WritesTheGreedyTextOfTheWholeWindow) {
  const ModelConfig config = Shape(true);
  TypedParams params(config, NumberType::kFloat32);
  Whole whole(config, params);
  Decoder decoder(config, params, 1);
  std::vector<Token> text = {3, 1, 4, 1, 5};
  const TokenChoice greedy = {.temperature = 0};
  const float* logits = decoder.Append(text);
  while (text.size() < config.seq) {
    const std::vector<float> expected = whole.Logits(text, text.size() - 1);
    const Token token = ChooseToken({logits, config.vocabulary}, greedy, 0);
    ASSERT_EQ(token, ChooseToken({expected.data(), config.vocabulary}, greedy, 0)) << text.size();
    text.push_back(token);
    logits = decoder.Append({&text.back(), 1});
  }
}

TEST(Decoder, UsesTheUnitsAsAForwardDoes) {
  for (const ModelConfig& config :
       {Shape(true), Shape(false), LlamaShape(true), LlamaShape(false)}) {
    TypedParams params(config, NumberType::kFloat32);
    Whole whole(config, params);
    whole.Logits({1, 2}, 1);
    const std::vector<std::string> expected = std::move(params.calls);
    Decoder decoder(config, params, 1);
    for (const size_t count : {2, 1}) {
      params.calls.clear();
      decoder.Append(std::vector<Token>(count, 1));
      EXPECT_EQ(params.calls, expected);
    }
  }
}

TEST(Decoder, RefusesWhatItHasNoRoomFor) {
  ModelConfig config = Shape(true);
  config.seq = 6;
  TypedParams params(config, NumberType::kFloat32);
  Decoder decoder(config, params, 1);
  const std::vector<Token> text(7, 1);
  EXPECT_THROW(decoder.Append({}), std::invalid_argument);
  EXPECT_THROW(decoder.Append(text), std::invalid_argument);
  decoder.Append(std::span(text).first(4));
  EXPECT_THROW(decoder.Append(std::span(text).first(3)), std::invalid_argument);
  decoder.Append(std::span(text).first(2));
  EXPECT_EQ(decoder.length(), 6u);
  decoder.Forget();
  decoder.Append(std::span(text).first(6));
}

TEST(ChooseToken, TakesTheLikeliestAtTemperature0AndTheFirstOfEquals) {
  const float logits[] = {1, 3, std::nanf(""), 3, -1};
  for (const TokenChoice& choice : {TokenChoice{.temperature = 0}, TokenChoice{.top = 1}}) {
    for (uint64_t i = 0; i < 20; i++)
      EXPECT_EQ(ChooseToken(logits, choice, i), 1u);
  }
  const float none[] = {std::nanf(""), std::nanf("")};
  EXPECT_THROW(ChooseToken(none, {}, 0), RunFailure);
  const float certain[] = {0, std::numeric_limits<float>::infinity()};
  EXPECT_EQ(ChooseToken(certain, {}, 0), 1u);
}

TEST(ChooseToken, DrawsByTheProbabilitiesOfTheTopTokens) {
  const float logits[] = {0, std::log(2.0f), std::log(4.0f), std::log(8.0f)};
  constexpr size_t kDraws = 20000;
  size_t counts[4] = {};
  for (uint64_t i = 0; i < kDraws; i++)
    counts[ChooseToken(logits, {.temperature = 0.5, .top = 3, .seed = 9}, i)]++;
  EXPECT_EQ(counts[0], 0u);
  const double all = 4 + 16 + 64;  // squares, at half the temperature
  for (size_t i = 1; i < 4; i++) {
    const double p = std::pow(4.0, double(i)) / all;
    EXPECT_NEAR(double(counts[i]) / kDraws, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << i;
  }
}

// On the way past the end of the window, with weights that are gathered unit by unit.
TEST(TextGenerator, BeginsItsWindowAnewWithTheLastHalfAndIsTheSameWithEveryStrategy) {
  constexpr size_t kCount = 40, kRanks = 2;
  std::vector<std::vector<Token>> texts;
  for (const weft_shard_preset_t strategy : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_FULL_SHARD}) {
    TrainConfig config = SmallConfig();
    config.strategy = strategy;
    config.model.deviation = 0.5;
    const size_t seq = config.model.seq;
    RunAsThreads(kRanks, [&](size_t rank, weft_group_t group) {
      Trainer trainer(config, TestText(), group);
      trainer.Begin();
      const std::vector<Token> text = trainer.Generate({'a', 'b', 'c'}, kCount, 0, 1);
      const std::vector<Token> above = trainer.Generate(text, 3, 0, 1);
      const std::vector<std::vector<float>> values = trainer.ReadParams();
      if (rank != 0) return;
      texts.push_back(text);
      // The same by whole windows.
      TypedParams params(config.model, NumberType::kFloat32);
      params.Set(values);
      Whole whole(config.model, params);
      std::vector<Token> window = {'a', 'b', 'c'}, expected = window;
      for (size_t i = 0; i < kCount; i++) {
        if (window.size() > seq) window.erase(window.begin(), window.end() - long(seq / 2));
        const std::vector<float> logits = whole.Logits(window, window.size() - 1);
        window.push_back(ChooseToken({logits.data(), 256}, {.temperature = 0}, 0));
        expected.push_back(window.back());
      }
      EXPECT_EQ(text, expected);
      // A prompt that is longer than the window: its end counts.
      const std::vector<float> logits = whole.Logits({text.end() - long(seq), text.end()}, seq - 1);
      EXPECT_EQ(above[text.size()], ChooseToken({logits.data(), 256}, {.temperature = 0}, 0));
    });
  }
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0].size(), 3 + kCount);
}

// The activations make room for a sample, and are there again as they were, in the type of the
// run's products.
TEST(TextGenerator, ASampleBetweenStepsChangesNoBitOfThem) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kFp16}) {
    if (!PrecisionSupported(precision)) continue;
    SCOPED_TRACE(NameOf(precision));
    TrainConfig config = SmallConfig();
    config.precision = precision;
    config.recompute = Recompute::kSelective;
    std::vector<std::vector<double>> losses;
    for (const bool sampled : {false, true}) {
      RunAsThreads(1, [&](size_t, weft_group_t group) {
        Trainer trainer(config, TestText(), group);
        trainer.Begin();
        losses.emplace_back();
        for (size_t step = 0; step < 4; step++) {
          losses.back().push_back(trainer.Step(step).loss);
          if (sampled) trainer.Generate({'a'}, 2 * config.model.seq, 0.8, 40);
        }
        losses.back().push_back(trainer.Evaluate({0, 100, 200}).value());
      });
    }
    ASSERT_EQ(losses.size(), 2u);
    EXPECT_EQ(losses[0], losses[1]);
  }
}

}  // namespace
}  // namespace weft::trainer::decoder_test

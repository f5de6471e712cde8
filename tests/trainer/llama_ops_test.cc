// The operations that Llama has beside GPT-2's, on every instruction set of this machine.
#include <cmath>
#include <vector>

#include "tests/trainer/finite_difference.h"
#include "tests/trainer/isas.h"
#include "trainer/ops.h"

namespace weft::trainer::llama_ops_test {
namespace {

class LlamaOpsTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!IsaSupported(GetParam())) GTEST_SKIP() << "this CPU lacks the instructions";
  }

  const Ops<double>& ops() const { return OpsFor<double>(GetParam()); }
};

TEST_P(LlamaOpsTest, RmsNormIsItsDefinitionAndHasItsGradientAtWidthsAroundTheVectorSize) {
  for (const double epsilon : {1e-5, 0.3}) {
    for (const size_t width : {1, 2, 7, 8, 9, 16, 21}) {
      constexpr size_t kRows = 6;
      auto x = RandomValues(kRows * width, 1), gamma = RandomValues(width, 2);
      const auto weights = RandomValues(kRows * width, 4);
      std::vector<double> out(x.size()), rstd(kRows);
      const auto f = [&] {
        ops().rms_norm(x.data(), gamma.data(), epsilon, out.data(), rstd.data(), kRows, width);
        return Dot(out, weights);
      };
      f();
      for (size_t i = 0; i < x.size(); i++) {
        double squares = 0;
        for (size_t j = 0; j < width; j++)
          squares += x[i / width * width + j] * x[i / width * width + j];
        const double root = std::sqrt(squares / double(width) + epsilon);
        ASSERT_NEAR(out[i], x[i] / root * gamma[i % width], 1e-13) << i;
      }
      std::vector<double> dx(x.size(), 0.5), dgamma(width, 0.25);  // the operation adds
      ops().rms_norm_backward(weights.data(), x.data(), gamma.data(), rstd.data(), dx.data(),
                              dgamma.data(), kRows, width);
      for (double& v : dx)
        v -= 0.5;
      for (double& v : dgamma)
        v -= 0.25;
      ExpectGradient("x", x.data(), dx.data(), x.size(), f);
      ExpectGradient("gamma", gamma.data(), dgamma.data(), width, f);
    }
  }
}

TEST_P(LlamaOpsTest, SwiGluIsItsDefinitionAndHasItsGradient) {
  constexpr size_t kRows = 2, kColumns = 13;
  auto gate = RandomValues(kRows * kColumns, 1), up = RandomValues(kRows * kColumns, 2);
  for (double& v : gate)
    v *= 5;
  const auto weights = RandomValues(gate.size(), 3);
  std::vector<double> out(gate.size());
  const auto f = [&] {
    ops().swiglu(gate.data(), up.data(), out.data(), kRows, kColumns);
    return Dot(out, weights);
  };
  f();
  for (size_t i = 0; i < gate.size(); i++)
    EXPECT_NEAR(out[i], gate[i] / (1 + std::exp(-gate[i])) * up[i], 1e-13);
  std::vector<double> dgate(gate.size()), dup = weights;  // in place
  ops().swiglu_backward(gate.data(), up.data(), dup.data(), dgate.data(), dup.data(), kRows,
                        kColumns);
  ExpectGradient("gate", gate.data(), dgate.data(), gate.size(), f);
  ExpectGradient("up", up.data(), dup.data(), up.size(), f);
}

constexpr double kTheta = 100;

// As ops.h has it: cosines, then sines, of each position.
std::vector<double> AnglesTable(size_t seq, size_t dim) {
  std::vector<double> table(seq * dim);
  for (size_t i = 0; i < table.size(); i++) {
    const size_t position = i / dim, pair = i % dim % (dim / 2);
    const double angle = double(position) * std::pow(kTheta, -2.0 * double(pair) / double(dim));
    table[i] = i % dim < dim / 2 ? std::cos(angle) : std::sin(angle);
  }
  return table;
}

size_t Columns(const AttentionShape& s) {
  return (s.heads + 2 * s.kv_heads) * s.head_dim;
}

// Where number d of a head of queries stands in a token's numbers.
size_t PlaceOfQuery(const AttentionShape& s, size_t head, size_t d) {
  const size_t group = s.heads / s.kv_heads;
  return (head / group * (group + 2) + head % group) * s.head_dim + d;
}

// Of the key that the head shares; of its value: head_dim further.
size_t PlaceOfKey(const AttentionShape& s, size_t head, size_t d) {
  const size_t group = s.heads / s.kv_heads;
  return (head / group * (group + 2) + group) * s.head_dim + d;
}

TEST_P(LlamaOpsTest, RotationTurnsQueriesAndKeysByTheirPositionsAndNothingElse) {
  for (const size_t dim : {2, 6, 16, 36}) {
    const AttentionShape shape{2, 5, 4, dim, 2};
    const size_t columns = Columns(shape);
    const auto before = RandomValues(shape.batch * shape.seq * columns, dim);
    auto after = before;
    const auto table = AnglesTable(shape.seq, dim);
    ops().rotate(after.data(), table.data(), shape, false);
    std::vector<bool> turns(columns);
    for (size_t head = 0; head < shape.heads; head++) {
      for (size_t d = 0; d < dim; d++)
        turns[PlaceOfQuery(shape, head, d)] = turns[PlaceOfKey(shape, head, d)] = true;
    }
    for (size_t i = 0; i < before.size(); i++) {
      const size_t column = i % columns, pair = column % dim % (dim / 2);
      const double angle =
          double(i / columns % shape.seq) * std::pow(kTheta, -2.0 * double(pair) / double(dim));
      const bool first = column % dim < dim / 2;
      const double x = before[first ? i : i - dim / 2], y = before[first ? i + dim / 2 : i];
      const double turned = first ? x * std::cos(angle) - y * std::sin(angle)
                                  : y * std::cos(angle) + x * std::sin(angle);
      ASSERT_NEAR(after[i], turns[column] ? turned : before[i], 1e-14) << i;
    }
    ops().rotate(after.data(), table.data(), shape, true);
    for (size_t i = 0; i < before.size(); i++)
      ASSERT_NEAR(after[i], before[i], 1e-14) << i;
  }
}

// What position means to attention: distances count, places do not.
TEST_P(LlamaOpsTest, RotatedScoresGoByTheDistanceOfTwoTokens) {
  constexpr size_t kSeq = 7, kDim = 8;
  const AttentionShape shape{1, kSeq, 1, kDim, 1};
  const auto same = RandomValues(3 * kDim, 1);
  std::vector<double> qkv;
  for (size_t t = 0; t < kSeq; t++)
    qkv.insert(qkv.end(), same.begin(), same.end());
  ops().rotate(qkv.data(), AnglesTable(kSeq, kDim).data(), shape, false);
  const auto score = [&](size_t query, size_t key) {
    double sum = 0;
    for (size_t d = 0; d < kDim; d++)
      sum += qkv[query * 3 * kDim + d] * qkv[key * 3 * kDim + kDim + d];
    return sum;
  };
  EXPECT_NEAR(score(2, 0), score(6, 4), 1e-13);
  EXPECT_GT(std::abs(score(2, 0) - score(3, 0)), 1e-3);
}

// Attention with keys and values of its own for each head, which are copies.
std::vector<double> Ungrouped(const std::vector<double>& qkv, const AttentionShape& s) {
  std::vector<double> all;
  for (size_t row = 0; row < s.batch * s.seq; row++) {
    const double* const token = qkv.data() + row * Columns(s);
    for (size_t head = 0; head < s.heads; head++) {
      const double* const q = token + PlaceOfQuery(s, head, 0);
      const double* const k = token + PlaceOfKey(s, head, 0);
      all.insert(all.end(), q, q + s.head_dim);
      all.insert(all.end(), k, k + 2 * s.head_dim);
    }
  }
  return all;
}

TEST_P(LlamaOpsTest, HeadsThatShareKeysAndValuesAttendAsIfEachHadACopy) {
  const DropoutMask mask = {.key = 5, .first_row = 70, .threshold = 20'000};
  for (const size_t kv_heads : {1, 2, 3, 6}) {
    for (const size_t seq : {1, 33, 70}) {
      const AttentionShape shape{2, seq, 6, 5, kv_heads}, apart{2, seq, 6, 5};
      const size_t rows = 2 * seq, width = 30, columns = Columns(shape);
      const auto qkv = RandomValues(rows * columns, seq), copied = Ungrouped(qkv, shape);
      const auto dout = RandomValues(rows * width, 8);
      std::vector<double> out(rows * width), expected(out.size()), lse(12 * seq), lse_apart = lse;
      ops().attention(qkv.data(), out.data(), lse.data(), shape, mask);
      ops().attention(copied.data(), expected.data(), lse_apart.data(), apart, mask);
      EXPECT_EQ(out, expected);
      EXPECT_EQ(lse, lse_apart);
      std::vector<double> dqkv(qkv.size(), 7), dcopied(copied.size(), 7);
      ops().attention_backward(qkv.data(), out.data(), lse.data(), dout.data(), dqkv.data(), shape,
                               mask);
      ops().attention_backward(copied.data(), expected.data(), lse.data(), dout.data(),
                               dcopied.data(), apart, mask);
      std::vector<double> sums(dqkv.size());  // of the copies' gradients
      for (size_t i = 0; i < dcopied.size(); i++) {
        const size_t row = i / (3 * width), head = i % (3 * width) / 15, d = i % 15;
        sums[row * columns +
             (d < 5 ? PlaceOfQuery(shape, head, d) : PlaceOfKey(shape, head, d - 5))] += dcopied[i];
      }
      for (size_t i = 0; i < sums.size(); i++)
        ASSERT_NEAR(dqkv[i], sums[i], 1e-12) << i;
    }
  }
}

TEST_P(LlamaOpsTest, GroupedAttentionHasTheGradientOfItsOutput) {
  for (const size_t seq : {1, 5, 35}) {
    const AttentionShape shape{2, seq, 4, 4, 2};
    auto qkv = RandomValues(2 * seq * Columns(shape), seq);
    const auto weights = RandomValues(2 * seq * 16, seq + 1), table = AnglesTable(seq, 4);
    std::vector<double> out(weights.size()), lse(seq * 2 * 4), dqkv(qkv.size(), 7), turned;
    const auto f = [&] {
      turned = qkv;
      ops().rotate(turned.data(), table.data(), shape, false);
      ops().attention(turned.data(), out.data(), lse.data(), shape, {});
      return Dot(out, weights);
    };
    f();
    ops().attention_backward(turned.data(), out.data(), lse.data(), weights.data(), dqkv.data(),
                             shape, {});
    ops().rotate(dqkv.data(), table.data(), shape, true);
    ExpectGradient("qkv", qkv.data(), dqkv.data(), qkv.size(), f, 150);
  }
}

TEST_P(LlamaOpsTest, TokensAreEmbeddedWithoutPositions) {
  constexpr size_t kBatch = 2, kSeq = 3, kWidth = 5, kVocabulary = 4;
  const Token tokens[kBatch * kSeq] = {0, 3, 3, 1, 0, 3};
  const auto wte = RandomValues(kVocabulary * kWidth, 1);
  const auto dout = RandomValues(kBatch * kSeq * kWidth, 3);
  std::vector<double> out(dout.size()), dwte(wte.size()), sums(wte.size());
  ops().embed(tokens, wte.data(), Numbers(nullptr, NumberType::kFloat64), out.data(), kBatch, kSeq,
              kWidth);
  ops().embed_backward(tokens, dout.data(), dwte.data(), nullptr, kBatch, kSeq, kWidth);
  for (size_t i = 0; i < out.size(); i++) {
    const size_t from = size_t(tokens[i / kWidth]) * kWidth + i % kWidth;
    EXPECT_EQ(out[i], wte[from]) << i;
    sums[from] += dout[i];
  }
  EXPECT_EQ(dwte, sums);
}

INSTANTIATE_TEST_SUITE_P(Isas, LlamaOpsTest, testing::ValuesIn(kIsas), IsaName);

}  // namespace
}  // namespace weft::trainer::llama_ops_test

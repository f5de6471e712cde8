// Operations on bfloat16 beside the same on float32 or float64 of the same numbers, in rows that
// are apart.
#ifndef WEFT_SANITIZE
#include <omp.h>
#endif

#include <cmath>
#include <vector>

#include "tests/trainer/finite_difference.h"
#include "tests/trainer/isas.h"
#include "trainer/ops.h"

namespace weft::trainer::bf16_ops_test {
namespace {

constexpr NumberType kBf16 = NumberType::kBf16;
// Half the distance of two neighbours, relative.
constexpr double kRounding = 1.0 / 256;

// A matrix of bfloat16 whose rows are three numbers longer than its columns; what is between them
// must not change.
class Matrix {
 public:
  static constexpr size_t kGap = 3;
  static constexpr uint16_t kUntouched = 0x7fab;

  Matrix(size_t rows, size_t columns)
      : rows_(rows), columns_(columns), bits_(rows * (columns + kGap), kUntouched) {}

  Matrix(size_t rows, size_t columns, const std::vector<double>& values) : Matrix(rows, columns) {
    for (size_t i = 0; i < rows; i++) {
      const std::vector<float> row(values.begin() + long(i * columns),
                                   values.begin() + long((i + 1) * columns));
      OpsFor<float>(Isa::kScalar).to_bf16(row.data(), &bits_[i * (columns + kGap)], columns);
    }
  }

  Numbers view() const { return {bits_.data(), kBf16, columns_ + kGap}; }

  MutableNumbers view() { return {bits_.data(), kBf16, columns_ + kGap}; }

  // [rows, columns]
  std::vector<double> values() const {
    std::vector<double> all;
    for (size_t i = 0; i < rows_; i++) {
      std::vector<double> row(columns_);
      OpsFor<double>(Isa::kScalar).widen(view().Rows(i, columns_), row.data(), columns_);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

  void ExpectUntouchedGaps() const {
    for (size_t i = 0; i < bits_.size(); i++) {
      if (i % (columns_ + kGap) >= columns_) {
        ASSERT_EQ(bits_[i], kUntouched) << i;
      }
    }
  }

 private:
  size_t rows_, columns_;
  std::vector<uint16_t> bits_;
};

std::vector<float> ToFloat(const std::vector<double>& x) {
  return {x.begin(), x.end()};
}

void ExpectRounded(const Matrix& got, const std::vector<double>& expected, double absolute = 0) {
  got.ExpectUntouchedGaps();
  const std::vector<double> values = got.values();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); i++) {
    ASSERT_NEAR(values[i], expected[i], std::abs(expected[i]) * kRounding + absolute + 1e-30) << i;
  }
}

class Bf16OpsTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!IsaSupported(GetParam())) GTEST_SKIP() << "this CPU lacks the instructions";
  }

  const Ops<float>& ops() const { return OpsFor<float>(GetParam()); }
};

TEST_P(Bf16OpsTest, NormsAndRoundedGradientsAreThoseOfFloatsRounded) {
  for (const size_t width : {1, 15, 16, 40}) {
    constexpr size_t kRows = 5;
    const std::vector<float> x = ToFloat(RandomValues(kRows * width, 1));
    const std::vector<float> gamma = ToFloat(RandomValues(width, 2)), beta(width, 0.5f);
    std::vector<float> whole(x.size()), mean(kRows), rstd(kRows), sums(width, 1),
        expected(width, 1);
    Matrix norm(kRows, width), narrow(kRows, width);
    ops().layer_norm(x.data(), gamma.data(), beta.data(), whole.data(), mean.data(), rstd.data(),
                     kRows, width);
    ops().layer_norm(x.data(), gamma.data(), beta.data(), norm.view(), mean.data(), rstd.data(),
                     kRows, width);
    ExpectRounded(norm, {whole.begin(), whole.end()});
    ops().narrow(x.data(), narrow.view(), sums.data(), kRows, width);
    ExpectRounded(narrow, {x.begin(), x.end()});
    ops().column_sum(x.data(), expected.data(), kRows, width);
    EXPECT_EQ(sums, expected);
  }
}

TEST_P(Bf16OpsTest, GeluAndItsGradientAreThoseOfDoublesRounded) {
  for (const size_t columns : {1, 16, 37}) {
    constexpr size_t kRows = 3;
    std::vector<double> values = RandomValues(kRows * columns, 4);
    for (double& v : values)
      v *= 6;
    const Matrix x(kRows, columns, values), dout(kRows, columns, RandomValues(values.size(), 5));
    const std::vector<double> in = x.values(), d = dout.values();
    std::vector<double> out(in.size()), dx(in.size()), dsums(columns, 2);
    std::vector<float> sums(columns, 2);
    const Ops<double>& exact = OpsFor<double>(Isa::kScalar);
    exact.gelu(in.data(), out.data(), kRows, columns);
    exact.gelu_backward(in.data(), d.data(), dx.data(), dsums.data(), kRows, columns);
    Matrix got(kRows, columns), gradient(kRows, columns);
    ops().gelu(x.view(), got.view(), kRows, columns);
    // Relative to what cancels.
    ExpectRounded(got, out, 1e-5);
    ops().gelu_backward(x.view(), dout.view(), gradient.view(), sums.data(), kRows, columns);
    ExpectRounded(gradient, dx, 1e-5);
    for (size_t j = 0; j < columns; j++)
      EXPECT_NEAR(sums[j], dsums[j], 1e-4);
  }
}

TEST_P(Bf16OpsTest, NormsOfRootMeanSquaresAreThoseOfFloatsRounded) {
  for (const size_t width : {1, 15, 16, 40}) {
    constexpr size_t kRows = 5;
    const std::vector<float> x = ToFloat(RandomValues(kRows * width, 1));
    const std::vector<float> gamma = ToFloat(RandomValues(width, 2));
    std::vector<float> whole(x.size()), rstd(kRows);
    Matrix norm(kRows, width), narrow(kRows, width);
    ops().rms_norm(x.data(), gamma.data(), 1e-6, whole.data(), rstd.data(), kRows, width);
    ops().rms_norm(x.data(), gamma.data(), 1e-6, norm.view(), rstd.data(), kRows, width);
    ExpectRounded(norm, {whole.begin(), whole.end()});
    ops().narrow(x.data(), narrow.view(), nullptr, kRows, width);
    ExpectRounded(narrow, {x.begin(), x.end()});
  }
}

TEST_P(Bf16OpsTest, SwiGluAndItsGradientAreThoseOfDoublesRounded) {
  for (const size_t columns : {1, 16, 37}) {
    constexpr size_t kRows = 3;
    std::vector<double> values = RandomValues(kRows * columns, 4);
    for (double& v : values)
      v *= 6;
    const Matrix gate(kRows, columns, values), up(kRows, columns, RandomValues(values.size(), 5));
    const Matrix dout(kRows, columns, RandomValues(values.size(), 6));
    const std::vector<double> g = gate.values(), u = up.values(), d = dout.values();
    std::vector<double> out(g.size()), dgate(g.size()), dup(g.size());
    const Ops<double>& exact = OpsFor<double>(Isa::kScalar);
    exact.swiglu(g.data(), u.data(), out.data(), kRows, columns);
    exact.swiglu_backward(g.data(), u.data(), d.data(), dgate.data(), dup.data(), kRows, columns);
    Matrix got(kRows, columns), got_dgate(kRows, columns), got_dup = dout;
    ops().swiglu(gate.view(), up.view(), got.view(), kRows, columns);
    ExpectRounded(got, out, 1e-5);  // relative to what cancels
    ops().swiglu_backward(gate.view(), up.view(), got_dup.view(), got_dgate.view(), got_dup.view(),
                          kRows, columns);
    ExpectRounded(got_dgate, dgate, 1e-5);
    ExpectRounded(got_dup, dup, 1e-5);
  }
}

TEST_P(Bf16OpsTest, RotationIsThatOfDoublesRounded) {
  for (const size_t dim : {2, 10, 32, 34}) {
    const AttentionShape shape{2, 3, 4, dim, 2};
    const size_t rows = 6, columns = 8 * dim;
    Matrix qkv(rows, columns, RandomValues(rows * columns, dim));
    const std::vector<double> angles = RandomValues(3 * dim, 9);
    std::vector<double> expected = qkv.values();
    OpsFor<double>(Isa::kScalar).rotate(expected.data(), angles.data(), shape, true);
    ops().rotate(qkv.view(), ToFloat(angles).data(), shape, true);
    ExpectRounded(qkv, expected, 1e-6);
  }
}

TEST_P(Bf16OpsTest, GroupedAttentionIsThatOfDoublesWithinWhatIsRounded) {
  for (const size_t seq : {1, 33, 70}) {
    for (const size_t dim : {4, 9, 16}) {
      SCOPED_TRACE(testing::Message() << seq << " tokens, dimension " << dim);
      const AttentionShape shape{2, seq, 6, dim, 2};
      const size_t rows = 2 * seq, width = 6 * dim, columns = 10 * dim;
      const Matrix qkv(rows, columns, RandomValues(rows * columns, seq + dim));
      const Matrix dout(rows, width, RandomValues(rows * width, 8));
      const std::vector<double> in = qkv.values(), d = dout.values();
      std::vector<double> out(rows * width), lse(12 * seq), dqkv(in.size());
      const Ops<double>& exact = OpsFor<double>(Isa::kScalar);
      exact.attention(in.data(), out.data(), lse.data(), shape, {});
      exact.attention_backward(in.data(), out.data(), lse.data(), d.data(), dqkv.data(), shape, {});
      Matrix got(rows, width), gradient(rows, columns);
      std::vector<float> got_lse(lse.size());
      ops().attention(qkv.view(), got.view(), got_lse.data(), shape, {});
      ExpectRounded(got, out, 0.02);
      ops().attention_backward(qkv.view(), got.view(), got_lse.data(), dout.view(), gradient.view(),
                               shape, {});
      ExpectRounded(gradient, dqkv, 3 * 0.05 * std::sqrt(double(dim)));  // three heads add up
    }
  }
}

TEST_P(Bf16OpsTest, ColumnSumsAreThoseOfTheWidenedNumbers) {
  constexpr size_t kRows = 7, kColumns = 35;
  const Matrix x(kRows, kColumns, RandomValues(kRows * kColumns, 6));
  std::vector<float> sums(kColumns, 1), expected(kColumns, 1);
  ops().column_sum(x.view(), sums.data(), kRows, kColumns);
  ops().column_sum(ToFloat(x.values()).data(), expected.data(), kRows, kColumns);
  EXPECT_EQ(sums, expected);
}

TEST_P(Bf16OpsTest, GradientsOfLogitsTakeTheBeginningOfTheirRows) {
  for (const size_t columns : {1, 16, 19, 40}) {
    constexpr size_t kRows = 3;
    const size_t stride = columns + 5;
    std::vector<float> logits = ToFloat(RandomValues(kRows * stride, 7)), whole = logits;
    const Token targets[kRows] = {0, Token(columns - 1), Token(columns / 2)};
    EXPECT_EQ(ops().cross_entropy(logits.data(), targets, 0.25, kBf16, kRows, columns, stride),
              ops().cross_entropy(whole.data(), targets, 0.25, NumberType::kFloat32, kRows, columns,
                                  stride));
    for (size_t i = 0; i < kRows; i++) {
      std::vector<float> row(stride);
      ops().widen(Numbers(logits.data(), kBf16, 2 * stride).Rows(i, stride), row.data(), stride);
      for (size_t j = 0; j < stride; j++) {
        const double expected = whole[i * stride + j];
        ASSERT_NEAR(row[j], expected, std::abs(expected) * kRounding) << i << " " << j;
      }
    }
  }
}

// The products round their inputs: probabilities, and gradients of scores.
TEST_P(Bf16OpsTest, AttentionIsThatOfDoublesWithinWhatIsRounded) {
  for (const uint32_t threshold : {0, 20'000}) {
    const DropoutMask mask = {.key = 5, .first_row = 70, .threshold = threshold};
    for (const size_t seq : {1, 2, 31, 33, 70}) {
      for (const size_t dim : {1, 4, 9, 16, 33}) {
        SCOPED_TRACE(testing::Message() << seq << " tokens, dimension " << dim);
        const AttentionShape shape{2, seq, 3, dim};
        const size_t rows = 2 * seq, width = 3 * dim;
        const Matrix qkv(rows, 3 * width, RandomValues(rows * 3 * width, seq + dim));
        const Matrix dout(rows, width, RandomValues(rows * width, 8));
        const std::vector<double> in = qkv.values(), d = dout.values();
        std::vector<double> out(rows * width), lse(6 * seq), dqkv(in.size());
        const Ops<double>& exact = OpsFor<double>(Isa::kScalar);
        exact.attention(in.data(), out.data(), lse.data(), shape, mask);
        exact.attention_backward(in.data(), out.data(), lse.data(), d.data(), dqkv.data(), shape,
                                 mask);
        Matrix got(rows, width), gradient(rows, 3 * width);
        std::vector<float> got_lse(lse.size());
        ops().attention(qkv.view(), got.view(), got_lse.data(), shape, mask);
        // Values and weights are at most about 1, or what dropout makes of it.
        ExpectRounded(got, out, 0.02);
        for (size_t i = 0; i < lse.size(); i++)
          ASSERT_NEAR(got_lse[i], lse[i], 1e-4) << i;
        ops().attention_backward(qkv.view(), got.view(), got_lse.data(), dout.view(),
                                 gradient.view(), shape, mask);
        ExpectRounded(gradient, dqkv, 0.05 * std::sqrt(double(dim)));
      }
    }
  }
}

// Errors that do not come from rounding would not vanish on average.
TEST_P(Bf16OpsTest, AttentionsGradientIsRightOnAverage) {
  const AttentionShape shape{2, 70, 3, 16};
  constexpr size_t kRows = 140, kWidth = 48, kHeadRows = 420;
  const Matrix qkv(kRows, 3 * kWidth, RandomValues(kRows * 3 * kWidth, 1));
  const Matrix dout(kRows, kWidth, RandomValues(kRows * kWidth, 2));
  const std::vector<double> in = qkv.values(), d = dout.values();
  std::vector<double> out(kRows * kWidth), lse(kHeadRows), dqkv(in.size());
  const Ops<double>& exact = OpsFor<double>(Isa::kScalar);
  exact.attention(in.data(), out.data(), lse.data(), shape, {});
  exact.attention_backward(in.data(), out.data(), lse.data(), d.data(), dqkv.data(), shape, {});
  Matrix got(kRows, kWidth), gradient(kRows, 3 * kWidth);
  std::vector<float> got_lse(lse.size());
  ops().attention(qkv.view(), got.view(), got_lse.data(), shape, {});
  ops().attention_backward(qkv.view(), got.view(), got_lse.data(), dout.view(), gradient.view(),
                           shape, {});
  const std::vector<double> values = gradient.values();
  double error = 0, size = 0;
  for (size_t i = 0; i < values.size(); i++) {
    error += (values[i] - dqkv[i]) * (values[i] - dqkv[i]);
    size += dqkv[i] * dqkv[i];
  }
  EXPECT_LT(std::sqrt(error / size), 2 * kRounding);
}

#ifndef WEFT_SANITIZE  // whose build has one thread
// All operations that threads share, on matrices that are worth a team.
template <typename T>
std::vector<std::vector<T>> RunAll(const Ops<T>& ops, size_t rows, size_t width) {
  const std::vector<double> values = RandomValues(rows * width, 1);
  const std::vector<T> x(values.begin(), values.end()), gain(width, T(2)), bias(width, T(1));
  std::vector<Token> tokens(rows);
  for (size_t i = 0; i < rows; i++)
    tokens[i] = Token(i * i % 7);
  std::vector<T> norm(x.size()), mean(rows), rstd(rows), dx(x.size()), dgain(width), dbias(width);
  ops.layer_norm(x.data(), gain.data(), bias.data(), norm.data(), mean.data(), rstd.data(), rows,
                 width);
  ops.layer_norm_backward(norm.data(), x.data(), gain.data(), mean.data(), rstd.data(), dx.data(),
                          dgain.data(), dbias.data(), rows, width);
  std::vector<T> gelu(x.size()), dgelu(x.size()), sums(width), columns(width), out(x.size());
  ops.gelu(x.data(), gelu.data(), rows, width);
  ops.gelu_backward(x.data(), norm.data(), dgelu.data(), sums.data(), rows, width);
  ops.column_sum(x.data(), columns.data(), rows, width);
  ops.add(x.data(), gelu.data(), out.data(), out.size());
  std::vector<T> wte(7 * width), wpe(width), embedded(x.size()), narrow(x.size()), more(width);
  ops.embed_backward(tokens.data(), x.data(), wte.data(), wpe.data(), rows, 1, width);
  ops.embed(tokens.data(), wte.data(), wpe.data(), embedded.data(), rows, 1, width);
  ops.narrow(x.data(), narrow.data(), more.data(), rows, width);
  std::vector<T> logits = x, loss(1);
  loss[0] =
      T(ops.cross_entropy(logits.data(), tokens.data(), 0.5, kNumberTypeOf<T>, rows, width, width));
  std::vector<T> rms(x.size()), drms(x.size()), drms_gain(width), unit(x.size()), dgate(x.size()),
      dup(x.size()), turned = x, mixed(x.size() / 2), lse(rows * 2), dturned(x.size());
  ops.rms_norm(x.data(), gain.data(), 1e-5, rms.data(), rstd.data(), rows, width);
  ops.rms_norm_backward(norm.data(), x.data(), gain.data(), rstd.data(), drms.data(),
                        drms_gain.data(), rows, width);
  ops.swiglu(x.data(), norm.data(), unit.data(), rows, width);
  ops.swiglu_backward(x.data(), norm.data(), gelu.data(), dgate.data(), dup.data(), rows, width);
  // Two heads of queries that share one of keys and values; columns that they leave over are not
  // theirs.
  const AttentionShape shape{30, rows / 30, 2, width / 8 * 2, 1};
  const size_t used = 4 * shape.head_dim;
  ops.rotate({turned.data(), kNumberTypeOf<T>, width}, x.data(), shape, false);
  ops.attention({turned.data(), kNumberTypeOf<T>, width}, mixed.data(), lse.data(), shape, {});
  ops.attention_backward({turned.data(), kNumberTypeOf<T>, width}, mixed.data(), lse.data(),
                         mixed.data(), {dturned.data(), kNumberTypeOf<T>, width}, shape, {});
  EXPECT_LE(used, width);
  return {norm,      mean,     rstd,  dx,      dgain,  dbias, gelu,   dgelu,  sums, out,
          wte,       embedded, wpe,   columns, narrow, more,  logits, loss,   rms,  drms,
          drms_gain, unit,     dgate, dup,     turned, mixed, lse,    dturned};
}

// The same on bfloat16, and attention.
std::vector<std::vector<double>> RunAllBf16(const Ops<float>& ops) {
  constexpr size_t kRows = 1200, kWidth = 75;
  const std::vector<double> values = RandomValues(kRows * kWidth, 1);
  const std::vector<float> x = ToFloat(values), gain(kWidth, 2.0f), bias(kWidth, 1.0f);
  std::vector<Token> tokens(kRows, Token{3});
  std::vector<float> mean(kRows), rstd(kRows), sums(3 * kWidth), dropped = x, logits = x;
  Matrix norm(kRows, kWidth), gelu(kRows, kWidth), dgelu(kRows, kWidth), narrow(kRows, kWidth);
  ops.layer_norm(x.data(), gain.data(), bias.data(), norm.view(), mean.data(), rstd.data(), kRows,
                 kWidth);
  ops.gelu(norm.view(), gelu.view(), kRows, kWidth);
  ops.gelu_backward(norm.view(), gelu.view(), dgelu.view(), sums.data(), kRows, kWidth);
  ops.column_sum(gelu.view(), sums.data() + kWidth, kRows, kWidth);
  ops.narrow(x.data(), narrow.view(), sums.data() + 2 * kWidth, kRows, kWidth);
  ops.dropout(x.data(), dropped.data(), kRows, kWidth, {.key = 1, .threshold = 9'000});
  const double loss =
      ops.cross_entropy(logits.data(), tokens.data(), 0.5, kBf16, kRows, kWidth, kWidth);
  const AttentionShape shape{3, 70, 5, 8};
  constexpr size_t kTokens = 210, kHeadWidth = 40;
  const Matrix qkv(kTokens, 3 * kHeadWidth, RandomValues(kTokens * 3 * kHeadWidth, 2));
  Matrix mixed(kTokens, kHeadWidth), dqkv(kTokens, 3 * kHeadWidth);
  std::vector<float> lse(kTokens * shape.heads);
  ops.attention(qkv.view(), mixed.view(), lse.data(), shape, {});
  ops.attention_backward(qkv.view(), mixed.view(), lse.data(), mixed.view(), dqkv.view(), shape,
                         {});
  const auto doubles = [](const std::vector<float>& numbers) {
    return std::vector<double>(numbers.begin(), numbers.end());
  };
  return {norm.values(),   gelu.values(), dgelu.values(), narrow.values(),
          mixed.values(),  dqkv.values(), doubles(sums),  doubles(dropped),
          doubles(logits), doubles(lse),  {loss}};
}

TEST_P(Bf16OpsTest, AnyNumberOfThreadsGivesTheSameBits) {
  for (const size_t width : {16, 75}) {
    omp_set_num_threads(1);
    const auto one = RunAll(ops(), 1200, width);
    const auto one64 = RunAll(OpsFor<double>(GetParam()), 1200, width);
    const auto one16 = RunAllBf16(ops());
    for (const int threads : {2, 3, 7}) {
      omp_set_num_threads(threads);
      EXPECT_EQ(RunAll(ops(), 1200, width), one) << threads;
      EXPECT_EQ(RunAll(OpsFor<double>(GetParam()), 1200, width), one64) << threads;
      EXPECT_EQ(RunAllBf16(ops()), one16) << threads;
    }
  }
  omp_set_num_threads(1);
}
#endif

INSTANTIATE_TEST_SUITE_P(Isas, Bf16OpsTest, testing::ValuesIn(kIsas), IsaName);

}  // namespace
}  // namespace weft::trainer::bf16_ops_test

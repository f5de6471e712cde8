// Reductions made at run time: users' functions along the tree, factors, and what is refused.

#include "comm/kernels/custom_op.h"

#include <bit>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "comm/kernels/reduce.h"
#include "comm/kernels/reduce_stage.h"
#include "comm/schedule/tree_pieces.h"
#include "tests/comm/kernels/reference.h"

namespace weft::custom_op_test {
namespace {

using testing::HasSubstr;

constexpr int kSourceCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 63, 64};

// What a function under test has been called with.
struct Seen {
  int calls = 0;
  weft_dtype_t dtype = WEFT_BOOL;
  bool wrong_place = false;  // out overlaps an input that it is not, or something is not aligned
};

void Look(const void* left, const void* right, void* out, size_t count, weft_dtype_t dtype,
          Seen* seen) {
  const size_t bytes = count * DtypeSize(dtype);
  const auto begin = [](const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer);
  };
  const auto apart = [&](const void* a, const void* b) {
    return begin(a) + bytes <= begin(b) || begin(b) + bytes <= begin(a);
  };
  for (const void* pointer : {left, right, static_cast<const void*>(out)}) {
    if (begin(pointer) % DtypeSize(dtype) != 0) seen->wrong_place = true;
  }
  if ((out != left && !apart(out, left)) || !apart(out, right)) seen->wrong_place = true;
  if (count == 0 || bytes > kUserTileBytes) seen->wrong_place = true;
  ++seen->calls;
  seen->dtype = dtype;
}

// float32 addition: not associative, so only the canonical tree gives the kernels' bits.
void AddFloats(const void* left, const void* right, void* out, size_t count, weft_dtype_t dtype,
               void* user) {
  Look(left, right, out, count, dtype, static_cast<Seen*>(user));
  for (size_t i = 0; i < count; ++i) {
    static_cast<float*>(out)[i] =
        static_cast<const float*>(left)[i] + static_cast<const float*>(right)[i];
  }
}

// Composition of x -> a x + b, a in the upper and b in the lower half: associative, not commutative.
uint64_t Compose(uint64_t left, uint64_t right) {
  const auto a = static_cast<uint32_t>(left >> 32);
  const auto b = static_cast<uint32_t>(left);
  const uint32_t product = a * static_cast<uint32_t>(right >> 32);
  return uint64_t{product} << 32 | static_cast<uint32_t>(a * static_cast<uint32_t>(right) + b);
}

void ComposeAll(const void* left, const void* right, void* out, size_t count, weft_dtype_t dtype,
                void* user) {
  Look(left, right, out, count, dtype, static_cast<Seen*>(user));
  for (size_t i = 0; i < count; ++i) {
    static_cast<uint64_t*>(out)[i] =
        Compose(static_cast<const uint64_t*>(left)[i], static_cast<const uint64_t*>(right)[i]);
  }
}

// Buffers of `bytes`, each `shift` bytes off an aligned place.
class Buffers {
 public:
  Buffers(int count, size_t bytes, size_t shift) : shift_(shift) {
    for (int i = 0; i < count; ++i)
      storage_.emplace_back(bytes / 8 + 2);
  }

  char* operator[](int i) { return reinterpret_cast<char*>(storage_[i].data()) + shift_; }

  std::vector<void*> Pointers() {
    std::vector<void*> pointers;
    for (int i = 0; i < static_cast<int>(storage_.size()); ++i)
      pointers.push_back((*this)[i]);
    return pointers;
  }

 private:
  size_t shift_;
  std::vector<std::vector<uint64_t>> storage_;
};

// Fills random bits and reduces into two destinations, the second of which is the last source.
void ExpectComposed(int source_count, size_t count, size_t shift) {
  std::mt19937_64 random(TestSeed());
  Buffers sources(source_count, count * 8, shift);
  Buffers apart(1, count * 8, shift);
  Elements expected(count, uint64_t{1} << 32);  // x -> x
  for (int s = 0; s < source_count; ++s) {
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = random();
      std::memcpy(sources[s] + i * 8, &bits, 8);
      expected[i] = Compose(expected[i], bits);
    }
  }
  Seen seen;
  const CustomOp op{.kind = kOpUser, .function = ComposeAll, .user = &seen, .name = "compose"};
  const std::vector<void*> pointers = sources.Pointers();
  void* const destinations[] = {apart[0], sources[source_count - 1]};
  ReduceByUser(op, WEFT_UINT64, {pointers.data(), source_count, destinations, 2, count, 0});
  const std::vector<char> packed = PackElements(WEFT_UINT64, expected);
  for (void* const destination : destinations) {
    const char* const bytes = static_cast<const char*>(destination);
    ASSERT_EQ(std::vector<char>(bytes, bytes + packed.size()), packed)
        << source_count << " sources, " << count << " elements, shift " << shift
        << ", --gtest_random_seed=" << TestSeed();
  }
  ASSERT_FALSE(seen.wrong_place) << source_count << " sources, " << count << " elements";
  ASSERT_EQ(seen.calls == 0, source_count == 1 || count == 0);
}

TEST(ReduceByUser, KeepsTheOrderOfTheSources) {
  constexpr size_t kTile = kUserTileBytes / 8;
  for (const int source_count : kSourceCounts) {
    for (const size_t count :
         {size_t{0}, size_t{1}, size_t{3}, kTile - 1, kTile, kTile + 1, size_t{1021}}) {
      for (const size_t shift : {0, 1, 4})
        ASSERT_NO_FATAL_FAILURE(ExpectComposed(source_count, count, shift));
    }
  }
}

TEST(ReduceByUser, FollowsTheTreeOfSums) {
  constexpr size_t kCount = 2049;
  std::mt19937_64 random(TestSeed());
  for (const int source_count : kSourceCounts) {
    Buffers sources(source_count, kCount * 4, 0);
    for (int s = 0; s < source_count; ++s) {
      for (size_t i = 0; i < kCount; ++i) {
        const float value =
            std::ldexp(static_cast<float>(random() % 2000) - 1000, static_cast<int>(random() % 30));
        std::memcpy(sources[s] + i * 4, &value, 4);
      }
    }
    const std::vector<void*> pointers = sources.Pointers();
    std::vector<char> expected(kCount * 4);
    std::vector<char> result(kCount * 4);
    void* to = expected.data();
    FindReduceKernel(Isa::kScalar, WEFT_FLOAT32,
                     WEFT_SUM)({pointers.data(), source_count, &to, 1, kCount, 0});
    Seen seen;
    const CustomOp op{.kind = kOpUser, .function = AddFloats, .user = &seen, .name = "add"};
    to = result.data();
    ReduceByUser(op, WEFT_FLOAT32, {pointers.data(), source_count, &to, 1, kCount, 0});
    EXPECT_EQ(result, expected) << source_count << " sources, --gtest_random_seed=" << TestSeed();
    EXPECT_FALSE(seen.wrong_place);
    // Five tiles, each one call less than there are sources.
    EXPECT_EQ(seen.calls, 5 * (source_count - 1));
    EXPECT_EQ(seen.dtype, source_count > 1 ? WEFT_FLOAT32 : WEFT_BOOL);
  }
}

// Any tree, with shifts that need copies; the function is called with less at a time where more has to wait.
TEST(ReduceByUser, FollowsMerges) {
  constexpr size_t kCount = 1500;
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 60; ++round) {
    const int source_count = kSourceCounts[random() % std::size(kSourceCounts)];
    const std::vector<uint8_t> merges = RandomMerges(source_count, random);
    std::vector<Elements> elements;
    Buffers sources(source_count, kCount * 4, random() % 4);
    for (int s = 0; s < source_count; ++s) {
      elements.push_back(RandomElements(WEFT_FLOAT32, kCount, random));
      const std::vector<char> packed = PackElements(WEFT_FLOAT32, elements.back());
      std::memcpy(sources[s], packed.data(), packed.size());
    }
    const std::vector<void*> pointers = sources.Pointers();
    std::vector<char> result(kCount * 4);
    void* const to = result.data();
    Seen seen;
    const CustomOp op{.kind = kOpUser, .function = AddFloats, .user = &seen, .name = "add"};
    ReduceByUser(op, WEFT_FLOAT32,
                 {pointers.data(), source_count, &to, 1, kCount, 0, nullptr, merges.data()});
    const Elements sums = Unpack(WEFT_FLOAT32, result);
    for (size_t i = 0; i < kCount; ++i) {
      Elements column;
      for (const Elements& source : elements)
        column.push_back(source[i]);
      const uint64_t expected =
          ReduceStageReference(ReduceStage::kMiddle, WEFT_FLOAT32, WEFT_SUM, column, 0, {}, merges);
      // A user's NaNs stay as they are.
      if (expected == QuietNan(WEFT_FLOAT32)) continue;
      ASSERT_EQ(sums[i], expected)
          << "element " << i << ", merges " << testing::PrintToString(merges)
          << ", --gtest_random_seed=" << TestSeed();
    }
    EXPECT_FALSE(seen.wrong_place) << testing::PrintToString(merges);
  }
}

// Islands that reduce their own pieces, and the rest of the tree over what these come to.
TEST(ReduceByUser, PiecesKeepTheOrderOfTheRanks) {
  constexpr size_t kCount = 300;
  std::mt19937_64 random(TestSeed());
  Seen seen;
  const CustomOp op{.kind = kOpUser, .function = ComposeAll, .user = &seen, .name = "compose"};
  for (const int rank_count : {5, 12, 23, 64}) {
    Buffers ranks(rank_count, kCount * 8, 0);
    Elements expected(kCount, uint64_t{1} << 32);  // x -> x
    std::vector<int> islands;
    for (int rank = 0; rank < rank_count; ++rank) {
      islands.push_back(rank / 3);
      for (size_t i = 0; i < kCount; ++i) {
        const uint64_t bits = random();
        std::memcpy(ranks[rank] + i * 8, &bits, 8);
        expected[i] = Compose(expected[i], bits);
      }
    }
    const std::vector<void*> pointers = ranks.Pointers();
    const TreePieces tree = PiecesOf(islands);
    const int piece_count = static_cast<int>(tree.pieces.size());
    Buffers pieces(piece_count, kCount * 8, 0);
    for (int i = 0; i < piece_count; ++i) {
      void* const piece = pieces[i];
      ReduceByUser(op, WEFT_UINT64,
                   {pointers.data() + tree.pieces[i].first_rank, tree.pieces[i].rank_count, &piece,
                    1, kCount, 0});
    }
    const std::vector<void*> sources = pieces.Pointers();
    std::vector<char> result(kCount * 8);
    void* const to = result.data();
    ReduceByUser(op, WEFT_UINT64,
                 {sources.data(), piece_count, &to, 1, kCount, 0, nullptr, tree.merges.data()});
    EXPECT_EQ(Unpack(WEFT_UINT64, result), expected) << rank_count << " ranks";
  }
  EXPECT_FALSE(seen.wrong_place);
}

// A product of the square matrices that elements are, of uint32: associative, not commutative, and of whole elements only.
struct Matrices {
  size_t rows;
  bool divided = false;  // called with less than whole elements
};

void MultiplyMatrices(const void* left, const void* right, void* out, size_t count,
                      weft_dtype_t /*dtype*/, void* user) {
  Matrices& matrices = *static_cast<Matrices*>(user);
  const size_t rows = matrices.rows;
  const size_t values = rows * rows;
  if (count == 0 || count % values != 0) matrices.divided = true;
  std::vector<uint32_t> product(values);
  for (size_t first = 0; first + values <= count; first += values) {
    const auto* const a = static_cast<const uint32_t*>(left) + first;
    const auto* const b = static_cast<const uint32_t*>(right) + first;
    for (size_t i = 0; i < values; ++i) {
      product[i] = 0;
      for (size_t k = 0; k < rows; ++k)
        product[i] += a[i / rows * rows + k] * b[k * rows + i % rows];
    }
    std::memcpy(static_cast<uint32_t*>(out) + first, product.data(), values * 4);
  }
}

// Up to the largest element, 45 x 45 of uint32, along T(n) and along any tree, from places that are not aligned.
TEST(ReduceByUser, NeverDividesAnElement) {
  std::mt19937_64 random(TestSeed());
  for (const size_t rows : {1, 2, 3, 5, 7, 22, 23, 45}) {
    const size_t values = rows * rows;
    ASSERT_LE(values * 4, size_t{WEFT_USER_ELEMENT_BYTES_MAX});
    Matrices matrices{rows};
    const CustomOp op{.kind = kOpUser,
                      .function = MultiplyMatrices,
                      .user = &matrices,
                      .element_count = values,
                      .name = "matrix product"};
    for (int round = 0; round < 8; ++round) {
      const int source_count = kSourceCounts[random() % std::size(kSourceCounts)];
      const size_t count = rows > 7 ? 1 + random() % 2 : 1 + random() % 700;
      const std::vector<uint8_t> merges = RandomMerges(source_count, random);
      Buffers sources(source_count, count * values * 4, random() % 4);
      std::vector<uint32_t> expected;
      for (int s = 0; s < source_count; ++s) {
        std::vector<uint32_t> source(count * values);
        for (uint32_t& value : source)
          value = static_cast<uint32_t>(random());
        std::memcpy(sources[s], source.data(), source.size() * 4);
        if (s == 0) {
          expected = source;
        } else {
          MultiplyMatrices(expected.data(), source.data(), expected.data(), source.size(),
                           WEFT_UINT32, &matrices);
        }
      }
      const std::vector<void*> pointers = sources.Pointers();
      std::vector<uint32_t> result(count * values);
      void* const to = result.data();
      ReduceByUser(op, WEFT_UINT32,
                   {pointers.data(), source_count, &to, 1, count, 0, nullptr,
                    round % 2 == 0 ? nullptr : merges.data()});
      EXPECT_EQ(result, expected) << rows << " rows, " << source_count << " sources, " << count
                                  << " elements, --gtest_random_seed=" << TestSeed();
    }
    EXPECT_FALSE(matrices.divided) << rows << " rows";
  }
}

void KeepLeft(const void* left, const void* /*right*/, void* out, size_t count, weft_dtype_t dtype,
              void* /*user*/) {
  std::memmove(out, left, count * DtypeSize(dtype));
}

TEST(ReduceByUser, TakesEveryType) {
  const CustomOp op{.kind = kOpUser, .function = KeepLeft, .name = "first"};
  for (const weft_dtype_t dtype : kDtypes) {
    const Elements first = SpecialElements(dtype);
    const Elements other(first.size(), 1);
    const std::vector<char> packed = PackElements(dtype, first);
    const std::vector<char> rest = PackElements(dtype, other);
    const void* const sources[] = {packed.data(), rest.data(), rest.data()};
    std::vector<char> result(packed.size());
    void* const destination = result.data();
    ReduceByUser(op, dtype, {sources, 3, &destination, 1, first.size(), 0});
    EXPECT_EQ(result, packed) << DtypeName(dtype);  // NaNs and all, nothing is rounded
  }
}

TEST(FactorBits, AreInTheTypeOfTheAccumulator) {
  for (const weft_dtype_t dtype :
       {WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2, WEFT_FLOAT16, WEFT_BFLOAT16}) {
    for (uint64_t bits = 0; bits < uint64_t{1} << (8 * DtypeSize(dtype)); ++bits) {
      const float value = DecodeFloat(dtype, bits);
      const uint64_t factor = FactorBits(dtype, &bits);
      ASSERT_EQ(factor >> 32, 0u);
      const auto given = std::bit_cast<float>(static_cast<uint32_t>(factor));
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(given)) << DtypeName(dtype) << " " << bits;
      } else {
        ASSERT_EQ(factor, std::bit_cast<uint32_t>(value)) << DtypeName(dtype) << " " << bits;
      }
    }
  }
  const uint64_t all = ~uint64_t{0};
  EXPECT_EQ(FactorBits(WEFT_INT8, &all), 0xffu);
  EXPECT_EQ(FactorBits(WEFT_UINT32, &all), 0xffffffffu);
  EXPECT_EQ(FactorBits(WEFT_INT64, &all), all);
  const double half = 0.5;
  EXPECT_EQ(FactorBits(WEFT_FLOAT64, &half), std::bit_cast<uint64_t>(half));
}

void ExpectRefused(weft_dtype_t dtype, weft_op_t op, const CustomOp* custom, const char* needle) {
  const absl::Status status = CheckReduction(dtype, op, custom);
  EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT) << DtypeName(dtype) << " " << OpName(op);
  EXPECT_THAT(std::string(status.message()), HasSubstr(needle));
}

TEST(CheckReduction, RefusesWhatDoesNotExist) {
  for (const weft_op_t op : {WEFT_BIT_AND, WEFT_BIT_OR, WEFT_BIT_XOR}) {
    for (const weft_dtype_t dtype : kDtypes) {
      if (IsFloatingDtype(dtype)) ExpectRefused(dtype, op, nullptr, "integers and bool");
    }
  }
  ExpectRefused(WEFT_FLOAT16, WEFT_BIT_XOR, nullptr, "no bit_xor of float16");
  ExpectRefused(WEFT_BOOL, WEFT_AVG, nullptr, "no avg of bool");
  ExpectRefused(WEFT_BOOL, WEFT_MIN_LOC, nullptr, "no min_loc of bool");
  ExpectRefused(WEFT_BOOL, WEFT_MAX_LOC, nullptr, "no max_loc of bool");
  ExpectRefused(static_cast<weft_dtype_t>(12), WEFT_SUM, nullptr, "12 is not a data type");
  ExpectRefused(WEFT_INT8, static_cast<weft_op_t>(5), nullptr, "5 is not a reduction");
  ExpectRefused(WEFT_INT8, WEFT_OP_CUSTOM_FIRST, nullptr, "1024 is not a reduction");
}

TEST(CheckReduction, WantsTheReductionThatTheNumberStandsFor) {
  const CustomOp scaled{.kind = kOpPremulSum, .dtype = WEFT_FLOAT32};
  const CustomOp boolean{.kind = kOpPremulSum, .dtype = WEFT_BOOL};
  const CustomOp user{.kind = kOpUser, .function = KeepLeft, .name = "first"};
  ExpectRefused(WEFT_FLOAT32, kOpPremulSum, nullptr, "1022 is not a reduction");
  ExpectRefused(WEFT_FLOAT32, kOpUser, nullptr, "1023 is not a reduction");
  ExpectRefused(WEFT_FLOAT32, kOpPremulSum, &user, "1022 is not a reduction");
  ExpectRefused(WEFT_FLOAT64, kOpPremulSum, &scaled, "made for float32, not for float64");
  ExpectRefused(WEFT_BOOL, kOpPremulSum, &boolean, "no premul_sum of bool");
  const CustomOp large{
      .kind = kOpUser, .function = KeepLeft, .element_count = 2049, .name = "large"};
  ExpectRefused(WEFT_FLOAT32, kOpUser, &large, "has 2049 float32 and so more than the 8192 bytes");
  EXPECT_TRUE(CheckReduction(WEFT_FLOAT16, kOpUser, &large).ok());
  EXPECT_TRUE(CheckReduction(WEFT_FLOAT32, kOpPremulSum, &scaled).ok());
  for (const weft_dtype_t dtype : kDtypes)
    EXPECT_TRUE(CheckReduction(dtype, kOpUser, &user).ok()) << DtypeName(dtype);
}

}  // namespace
}  // namespace weft::custom_op_test

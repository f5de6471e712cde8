// What the stages are for: islands sum their tree pieces, somebody sums the pieces, and the bits are those of one
// reduction over all ranks. For every type, operation and instruction set, any number of ranks and any map of
// ranks to islands; with and without vertices that are joined on the way.

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "comm/kernels/reduce_stage.h"
#include "comm/schedule/tree_pieces.h"
#include "tests/comm/kernels/reference.h"

namespace weft::reduce_pieces_test {
namespace {

#if defined(WEFT_SANITIZE)
constexpr int kRounds = 5;
#else
constexpr int kRounds = 30;
#endif
constexpr int kRanksMax = 24;

using Bytes = std::vector<char>;

// Which island each rank is on: in launch order, islands of one size or of any, round robin, or anywhere.
std::vector<int> RandomIslands(int rank_count, std::mt19937_64& random) {
  const uint64_t kind = random() % 4;
  const int island_count = 1 + static_cast<int>(random() % 5);
  const int size = 1 + static_cast<int>(random() % 8);
  std::vector<int> islands;
  int island = 0;
  for (int rank = 0; rank < rank_count; ++rank) {
    if (kind == 0) island = rank / size;
    if (kind == 1 && random() % 4 == 0) ++island;
    if (kind == 2) island = rank % island_count;
    if (kind == 3) island = static_cast<int>(random() % static_cast<uint64_t>(island_count));
    islands.push_back(island);
  }
  return islands;
}

// Contributions of a rank. In every other element all ranks have numbers of like size, whose sums hang on the
// order; the others meet anything.
Elements Contribution(weft_dtype_t dtype, size_t count, std::mt19937_64& random) {
  Elements elements = RandomElements(dtype, count, random);
  if (!IsFloatingDtype(dtype)) return elements;
  for (size_t i = 0; i < count; i += 2) {
    const double mantissa = 1 + static_cast<double>(random() % (1u << 24)) * 0x1p-24;
    const double sign = random() % 2 == 0 ? 1 : -1;
    const double value = sign * std::ldexp(mantissa, static_cast<int>(random() % 4) - 2);
    elements[i] = dtype == WEFT_FLOAT64 ? std::bit_cast<uint64_t>(value)
                                        : EncodeFloat(dtype, static_cast<float>(value));
  }
  return elements;
}

// One reduction of `count` elements and all that it takes.
class Reduction {
 public:
  Reduction(Isa isa, weft_dtype_t dtype, weft_op_t op, std::mt19937_64& random)
      : isa_(isa),
        dtype_(dtype),
        op_(op),
        random_(random),
        rank_count_(1 + static_cast<int>(random() % kRanksMax)),
        count_(random() % 8 == 0 ? 1000 + random() % 2000 : random() % 201),
        islands_(RandomIslands(rank_count_, random)),
        tree_(PiecesOf(islands_)),
        factors_(Factors(dtype, static_cast<size_t>(rank_count_))) {
    for (int rank = 0; rank < rank_count_; ++rank)
      ranks_.push_back(PackElements(dtype, Contribution(dtype, count_, random)));
    SumPieces();
  }

  Bytes Whole() const { return Run(ReduceStage::kWhole, ranks_, factors_, {}); }

  // All pieces at once in the last stage.
  Bytes ByPieces() const { return Run(ReduceStage::kLast, pieces_, {}, tree_.merges); }

  // Some vertices of the tree over the pieces are summed first, and some below them.
  Bytes ByVertices() {
    std::vector<int> waiting;
    for (size_t piece = 0; piece < tree_.pieces.size(); ++piece) {
      vertices_.push_back({-1, -1, piece});
      int result = static_cast<int>(vertices_.size()) - 1;
      for (int joins = tree_.merges[piece]; joins > 0; --joins) {
        vertices_.push_back({waiting.back(), result, 0});
        waiting.pop_back();
        result = static_cast<int>(vertices_.size()) - 1;
      }
      waiting.push_back(result);
    }
    return SumVertex(waiting[0], ReduceStage::kLast);
  }

  std::string Name() const {
    return StrCat(IsaName(isa_), " ", DtypeName(dtype_), " ", OpName(op_), " of ", count_,
                  " elements, islands ", testing::PrintToString(islands_),
                  ", --gtest_random_seed=", TestSeed());
  }

 private:
  struct Vertex {
    int left;  // -1: a piece
    int right;
    size_t piece;
  };

  // At addresses of any alignment, into one to three destinations, which must agree.
  Bytes Run(ReduceStage stage, const std::vector<Bytes>& sources, const Elements& factors,
            const std::vector<uint8_t>& merges) const {
    std::vector<Bytes> shifted;
    std::vector<const void*> pointers;
    for (const Bytes& source : sources) {
      const size_t shift = random_() % 64;
      shifted.emplace_back(shift);
      shifted.back().insert(shifted.back().end(), source.begin(), source.end());
      pointers.push_back(shifted.back().data() + shift);
    }
    const bool narrow = stage == ReduceStage::kWhole || stage == ReduceStage::kLast;
    const size_t bytes = count_ * DtypeSize(narrow ? dtype_ : AccumulatorDtype(dtype_, op_));
    const size_t shift = random_() % 64;
    std::vector<Bytes> results(1 + random_() % 3, Bytes(shift + bytes));
    std::vector<void*> destinations;
    destinations.reserve(results.size());
    for (Bytes& result : results)
      destinations.push_back(result.data() + shift);
    FindReduceKernel(isa_, dtype_, op_, stage)(
        {pointers.data(), static_cast<int>(pointers.size()), destinations.data(),
         static_cast<int>(destinations.size()), count_, rank_count_, factors.data(),
         merges.empty() ? nullptr : merges.data()});
    for (const Bytes& result : results)
      EXPECT_EQ(result, results[0]) << Name();
    return Bytes(results[0].begin() + static_cast<std::ptrdiff_t>(shift), results[0].end());
  }

  void SumPieces() {
    for (const TreePiece& piece : tree_.pieces) {
      const auto first = ranks_.begin() + piece.first_rank;
      const auto factor = factors_.begin() + piece.first_rank;
      pieces_.push_back(Run(ReduceStage::kFirst, {first, first + piece.rank_count},
                            {factor, factor + piece.rank_count}, {}));
    }
  }

  Bytes SumVertex(int at, ReduceStage stage) {
    std::vector<Bytes> sources;
    std::vector<uint8_t> merges;
    Collect(at, true, sources, merges);
    // The canonical shape may go without saying.
    std::vector<int> apart(sources.size());
    for (size_t i = 0; i < apart.size(); ++i)
      apart[i] = static_cast<int>(i);
    if (merges == PiecesOf(apart).merges && random_() % 2 == 0) merges.clear();
    return Run(stage, sources, {}, merges);
  }

  // Appends what is summed below a vertex: pieces, and vertices that are sums already.
  void Collect(int at, bool opened, std::vector<Bytes>& sources, std::vector<uint8_t>& merges) {
    const Vertex vertex = vertices_[at];
    if (vertex.left >= 0 && (opened || random_() % 3 != 0)) {
      Collect(vertex.left, false, sources, merges);
      Collect(vertex.right, false, sources, merges);
      ++merges.back();
      return;
    }
    sources.push_back(vertex.left < 0 ? pieces_[vertex.piece]
                                      : SumVertex(at, ReduceStage::kMiddle));
    merges.push_back(0);
  }

  const Isa isa_;
  const weft_dtype_t dtype_;
  const weft_op_t op_;
  std::mt19937_64& random_;
  const int rank_count_;
  const size_t count_;
  const std::vector<int> islands_;
  const TreePieces tree_;
  const Elements factors_;
  std::vector<Bytes> ranks_;
  std::vector<Bytes> pieces_;
  std::vector<Vertex> vertices_;
};

class ReducePiecesTest : public testing::TestWithParam<weft_dtype_t> {};

TEST_P(ReducePiecesTest, HaveTheBitsOfTheWholeReduction) {
  std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(GetParam()));
  for (const Isa isa : AvailableIsas()) {
    for (const weft_op_t op : OpsOf(GetParam())) {
      for (int round = 0; round < kRounds; ++round) {
        Reduction reduction(isa, GetParam(), op, random);
        const Bytes whole = reduction.Whole();
        ASSERT_TRUE(reduction.ByPieces() == whole) << reduction.Name();
        ASSERT_TRUE(reduction.ByVertices() == whole) << reduction.Name();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ReducePiecesTest, testing::ValuesIn(kDtypes),
                         [](const auto& info) { return std::string(DtypeName(info.param)); });

}  // namespace
}  // namespace weft::reduce_pieces_test

// Every kernel against the reference: types x operations x sources x counts x alignments x
// destinations x instruction sets, bit by bit.

#include "comm/kernels/reduce.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "tests/comm/kernels/guarded_pages.h"
#include "tests/comm/kernels/reference.h"
#include "tests/support/case_sample.h"

namespace weft::reduce_test {
namespace {

constexpr int kSourceCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17, 33, 64};
// Sanitizers make everything ten times slower; there the long calls and easy alignments are left out.
#if defined(WEFT_SANITIZE)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr size_t kCounts[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  11, 12, 13, 14,  15,   16,
                              17, 19, 23, 24, 31, 33, 47, 48, 56, 63, 64, 65, 96, 127, 1021, 5003};
constexpr size_t kCountMax = kSanitized ? 1021 : 5003;
constexpr int kDestinationCounts[] = {1, 2, 3, 8};
constexpr int kDestinationCountMax = 8;
constexpr size_t kMargin = 128;  // canary bytes, and room for misalignment
constexpr char kCanary = '\xa5';

// How the pointers of a case are misaligned, in bytes; sources and destinations differ.
enum class Alignment { kAligned, kOdd, kMixed };

size_t Shift(Alignment alignment, int pointer) {
  switch (alignment) {
    case Alignment::kAligned:
      return 0;
    case Alignment::kOdd:
      return 1;
    case Alignment::kMixed:
      return static_cast<size_t>(pointer * 7 + 3) % 64;
  }
  return 0;
}

// A buffer whose contents begin `shift` bytes after an aligned margin.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : storage_(bytes + 3 * kMargin) {}

  char* At(size_t shift) {
    char* const start = storage_.data() + kMargin;
    return start + (64 - reinterpret_cast<uintptr_t>(start) % 64) % 64 + shift;
  }

 private:
  std::vector<char> storage_;
};

bool IsCanary(const char* bytes, size_t count) {
  return std::all_of(bytes, bytes + count, [](char byte) { return byte == kCanary; });
}

class ReduceTest : public testing::TestWithParam<weft_dtype_t> {
 protected:
  // One set of sources and what their reduction is.
  struct Case {
    weft_op_t op;
    int source_count;
    std::vector<std::vector<char>> sources;
    std::vector<char> expected;
    Elements factors;
  };

  Case MakeCase(weft_op_t op, int source_count, size_t count = kCountMax) {
    Case made{op, source_count, {}, {}, Factors(GetParam(), static_cast<size_t>(source_count))};
    std::vector<Elements> sources;
    for (int s = 0; s < source_count; ++s) {
      sources.push_back(RandomElements(GetParam(), count, random_));
      made.sources.push_back(PackElements(GetParam(), sources.back()));
    }
    Elements expected(count);
    Elements column(source_count);
    for (size_t i = 0; i < count; ++i) {
      for (int s = 0; s < source_count; ++s)
        column[s] = sources[s][i];
      expected[i] = ReduceReference(GetParam(), op, column, source_count, made.factors);
    }
    made.expected = PackElements(GetParam(), expected);
    return made;
  }

  std::string Name(const Case& of, Isa isa) const {
    return StrCat(IsaName(isa), " ", DtypeName(GetParam()), " ", OpName(of.op), " of ",
                  of.source_count, " sources, --gtest_random_seed=", TestSeed());
  }

  // So that what is left out of one type is tried with another.
  static uint64_t SampleSeed() { return TestSeed() + static_cast<uint64_t>(GetParam()); }

  // Reduces prefixes of every length in kCounts into every number of destinations.
  void CheckCounts(const Case& of, Isa isa, Alignment alignment) {
    const size_t size = DtypeSize(GetParam());
    std::vector<const void*> sources;
    for (int s = 0; s < of.source_count; ++s) {
      char* source = source_buffers_[s].At(Shift(alignment, s));
      std::memcpy(source, of.sources[s].data(), of.sources[s].size());
      sources.push_back(source);
    }
    const ReduceKernel kernel = FindReduceKernel(isa, GetParam(), of.op);
    ASSERT_NE(kernel, nullptr);
    for (const int destination_count : kDestinationCounts) {
      std::vector<char*> destinations;
      destinations.reserve(destination_count);
      for (int d = 0; d < destination_count; ++d) {
        destinations.push_back(destination_buffers_[d].At(Shift(alignment, d + 20)));
      }
      const std::vector<void*> pointers(destinations.begin(), destinations.end());
      for (const size_t count : kCounts) {
        if (count > kCountMax) continue;
        const size_t bytes = count * size;
        for (char* destination : destinations) {
          std::memset(destination - kMargin, kCanary, bytes + 2 * kMargin);
        }
        kernel({sources.data(), of.source_count, pointers.data(), destination_count, count,
                of.source_count, of.factors.data()});
        for (int d = 0; d < destination_count; ++d) {
          const char* destination = destinations[d];
          ASSERT_EQ(std::memcmp(destination, of.expected.data(), bytes), 0)
              << Name(of, isa) << ", " << count << " elements, destination " << d << " of "
              << destination_count << ", alignment " << static_cast<int>(alignment);
          ASSERT_TRUE(IsCanary(destination - kMargin, kMargin) &&
                      IsCanary(destination + bytes, kMargin))
              << Name(of, isa) << ": wrote outside of " << count << " elements";
        }
      }
    }
  }

  // Reduces into the last `destination_count` sources.
  void CheckInPlace(const Case& of, Isa isa, int destination_count) {
    std::vector<std::vector<char>> buffers = of.sources;
    const std::vector<void*> pointers = Pointers(buffers);
    const int first = of.source_count - destination_count;
    FindReduceKernel(isa, GetParam(),
                     of.op)({pointers.data(), of.source_count, pointers.data() + first,
                             destination_count, kCountMax, of.source_count, of.factors.data()});
    for (int s = 0; s < of.source_count; ++s) {
      EXPECT_TRUE(buffers[s] == (s < first ? of.sources[s] : of.expected))
          << Name(of, isa) << ", source " << s << " of which the last " << destination_count
          << " are destinations";
    }
  }

  static std::vector<void*> Pointers(std::vector<std::vector<char>>& buffers) {
    std::vector<void*> pointers;
    pointers.reserve(buffers.size());
    for (std::vector<char>& buffer : buffers)
      pointers.push_back(buffer.data());
    return pointers;
  }

  std::mt19937_64 random_{TestSeed()};
  std::vector<Buffer> source_buffers_{kSourcesMax, Buffer(kCountMax * 8)};
  std::vector<Buffer> destination_buffers_{kDestinationCountMax, Buffer(kCountMax * 8)};
};

TEST_P(ReduceTest, EveryInstructionSetGivesTheReferencesBits) {
  const test::CaseSample sample({.every = 5, .sanitized = 5}, SampleSeed());
  size_t number = 0;
  for (const weft_op_t op : OpsOf(GetParam())) {
    for (const int source_count : kSourceCounts) {
      if (!sample.Takes(number++)) continue;
      const Case made = MakeCase(op, source_count);
      for (const Isa isa : AvailableIsas()) {
        for (const Alignment alignment :
             {Alignment::kMixed, Alignment::kOdd, Alignment::kAligned}) {
          if (kSanitized && alignment != Alignment::kMixed) continue;
          ASSERT_NO_FATAL_FAILURE(CheckCounts(made, isa, alignment));
        }
      }
    }
  }
  sample.Print(StrCat("operations and sources of ", DtypeName(GetParam())), number);
}

TEST_P(ReduceTest, ADestinationMayBeASource) {
  const test::CaseSample sample({.every = 5, .sanitized = 5}, SampleSeed());
  size_t number = 0;
  for (const weft_op_t op : OpsOf(GetParam())) {
    for (const int source_count : {1, 2, 3, 8, 9, 64}) {
      if (!sample.Takes(number++)) continue;
      const Case made = MakeCase(op, source_count);
      for (const Isa isa : AvailableIsas()) {
        CheckInPlace(made, isa, 1);
        CheckInPlace(made, isa, source_count);
      }
    }
  }
  sample.Print(StrCat("operations and sources in place of ", DtypeName(GetParam())), number);
}

TEST_P(ReduceTest, ReducesIntoTheMostDestinations) {
  const Case made = MakeCase(WEFT_SUM, 3);
  for (const Isa isa : AvailableIsas()) {
    const std::vector<const void*> sources{made.sources[0].data(), made.sources[1].data(),
                                           made.sources[2].data()};
    std::vector<std::vector<char>> results(kDestinationsMax,
                                           std::vector<char>(made.expected.size()));
    const std::vector<void*> pointers = Pointers(results);
    FindReduceKernel(isa, GetParam(), WEFT_SUM)(
        {sources.data(), 3, pointers.data(), kDestinationsMax, kCountMax, 0});
    for (const std::vector<char>& result : results) {
      ASSERT_TRUE(result == made.expected) << Name(made, isa);
    }
  }
}

// Every count up to two of the widest vectors, with memory that ends, or begins, where the elements do.
TEST_P(ReduceTest, FewElementsAreReadAndWrittenAndNothingElse) {
  constexpr int kSourceCountMax = 9;
  constexpr int kDestinations = 2;
  const size_t size = DtypeSize(GetParam());
  const size_t count_max = 2 * 64 / size + 2;
  const std::vector<GuardedPages> memory(kSourceCountMax + kDestinations);
  for (const weft_op_t op : OpsOf(GetParam())) {
    for (int source_count = 1; source_count <= kSourceCountMax; ++source_count) {
      const Case made = MakeCase(op, source_count, count_max);
      for (const Isa isa : AvailableIsas()) {
        const ReduceKernel kernel = FindReduceKernel(isa, GetParam(), op);
        for (size_t count = 0; count <= count_max; ++count) {
          const size_t bytes = count * size;
          for (const bool at_end : {true, false}) {
            const auto place = [&](int i) {
              return at_end ? memory[i].end() - bytes : memory[i].begin();
            };
            std::vector<const void*> sources;
            for (int s = 0; s < source_count; ++s) {
              std::memcpy(place(s), made.sources[s].data(), bytes);
              sources.push_back(place(s));
            }
            char* const first = place(kSourceCountMax);
            char* const second = place(kSourceCountMax + 1);
            char* const beside = at_end ? first - kMargin : first + bytes;
            std::memset(beside, kCanary, kMargin);
            void* const destinations[] = {first, second};
            kernel({sources.data(), source_count, destinations, kDestinations, count, source_count,
                    made.factors.data()});
            ASSERT_TRUE(std::memcmp(first, made.expected.data(), bytes) == 0 &&
                        std::memcmp(second, made.expected.data(), bytes) == 0)
                << Name(made, isa) << ", " << count << " elements";
            ASSERT_TRUE(IsCanary(beside, kMargin)) << Name(made, isa) << ", " << count;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ReduceTest, testing::ValuesIn(kDtypes),
                         [](const auto& info) { return std::string(DtypeName(info.param)); });

TEST(FindReduceKernel, HasExactlyWhatCheckReductionAllows) {
  const auto number = [](auto of) {
    return static_cast<int>(of);
  };
  for (int dtype = -1; dtype < 130; ++dtype) {
    for (int op = -1; op < 1030; ++op) {
      const auto dtype_of = static_cast<weft_dtype_t>(dtype);
      const auto op_of = static_cast<weft_op_t>(op);
      const CustomOp custom{.kind = op_of, .dtype = dtype_of, .name = "mine"};
      const absl::Status allowed = CheckReduction(dtype_of, op_of, &custom);
      for (const Isa isa : AvailableIsas()) {
        const bool found = FindReduceKernel(isa, dtype_of, op_of) != nullptr;
        ASSERT_EQ(found, allowed.ok() && op != number(kOpUser))
            << IsaName(isa) << " type " << dtype << " op " << op << ": " << allowed;
      }
    }
  }
}

}  // namespace
}  // namespace weft::reduce_test

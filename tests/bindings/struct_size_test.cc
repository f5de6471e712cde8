// A struct that grows: callers that know fewer fields than the library, or more, put theirs at the end of
// a page.
#include "bindings/c/struct_size.h"

#include <cstring>

#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/bindings/page_end.h"

namespace weft::test {

// As the library has it; callers have one or two numbers, or four.
struct Grown {
  size_t struct_size;
  int64_t first;
  int64_t second;
  int64_t third;
};

}  // namespace weft::test

namespace weft {

template <>
inline constexpr size_t kOldestBytes<test::Grown> = offsetof(test::Grown, second);

}  // namespace weft

namespace weft::test {
namespace {

// A caller's struct of `bytes` bytes that says to have `struct_size`.
Grown* OfCaller(size_t bytes, size_t struct_size) {
  auto* const grown = static_cast<Grown*>(AtPageEnd(bytes));
  std::memcpy(static_cast<void*>(grown), &struct_size, sizeof(struct_size));
  return grown;
}

constexpr size_t kOldest = offsetof(Grown, second);
constexpr size_t kNewer = sizeof(Grown) + sizeof(int64_t);

TEST(ReadConfig, OfAnyVersionWithoutASizeMeansTheDefaults) {
  for (size_t bytes = kOldest; bytes <= kNewer; bytes += 8) {
    Grown full{.struct_size = sizeof(Grown), .first = 1, .second = 2, .third = 3};
    EXPECT_TRUE(ReadConfig("call", OfCaller(bytes, 0), &full).ok()) << bytes;
    EXPECT_EQ(full.first, 1);
    EXPECT_EQ(full.third, 3);
  }
}

TEST(ReadConfig, WithoutASizeButWithFieldsIsRefused) {
  Grown* const given = OfCaller(kOldest, 0);
  given->first = 5;
  Grown full{};
  EXPECT_EQ(ResultOf(ReadConfig("call", given, &full)), WEFT_INVALID_ARGUMENT);
}

TEST(ReadConfig, OfAnOlderCallerLeavesTheRestAtItsDefaults) {
  for (size_t bytes = kOldest; bytes <= sizeof(Grown); bytes += 8) {
    Grown* const given = OfCaller(bytes, bytes);
    given->first = 5;
    Grown full{.struct_size = 0, .first = 1, .second = 2, .third = 3};
    ASSERT_TRUE(ReadConfig("call", given, &full).ok()) << bytes;
    EXPECT_EQ(full.struct_size, sizeof(Grown));
    EXPECT_EQ(full.first, 5);
    EXPECT_EQ(full.second, bytes > offsetof(Grown, second) ? 0 : 2);
    EXPECT_EQ(full.third, bytes > offsetof(Grown, third) ? 0 : 3);
  }
}

TEST(ReadConfig, OfANewerCallerIsRefusedOnlyIfItUsesWhatIsNotKnown) {
  Grown* const given = OfCaller(kNewer, kNewer);
  given->first = 5;
  Grown full{};
  ASSERT_TRUE(ReadConfig("call", given, &full).ok());
  EXPECT_EQ(full.first, 5);
  reinterpret_cast<char*>(given)[kNewer - 1] = 1;
  EXPECT_EQ(ResultOf(ReadConfig("call", given, &full)), WEFT_UNSUPPORTED);
}

TEST(WriteAnswer, FillsWhatACallerOfAnyVersionHasAndNoMore) {
  const Grown made{.struct_size = 0, .first = 1, .second = 2, .third = 3};
  for (size_t bytes = kOldest; bytes <= kNewer; bytes += 8) {
    Grown* const answer = OfCaller(bytes, bytes);
    std::memset(reinterpret_cast<char*>(answer) + sizeof(size_t), 0x5a, bytes - sizeof(size_t));
    ASSERT_TRUE(CheckAnswer("call", answer).ok()) << bytes;
    WriteAnswer(made, answer);
    EXPECT_EQ(answer->struct_size, bytes);
    EXPECT_EQ(answer->first, 1);
    if (bytes > offsetof(Grown, third)) {
      EXPECT_EQ(answer->third, 3);
    }
    if (bytes < kNewer) continue;
    int64_t unknown = -1;
    std::memcpy(&unknown, reinterpret_cast<char*>(answer) + sizeof(Grown), sizeof(unknown));
    EXPECT_EQ(unknown, 0);
  }
}

TEST(CheckAnswer, RefusesWhatIsNoSizeOfThisStruct) {
  for (const size_t bytes :
       {size_t{0}, size_t{4}, kOldest - 8, kOldest + 1, kStructBytesMax + 8, SIZE_MAX}) {
    const Grown* const answer = OfCaller(sizeof(Grown), bytes);
    EXPECT_EQ(ResultOf(CheckAnswer("call", answer)), WEFT_INVALID_ARGUMENT) << bytes;
  }
}

}  // namespace
}  // namespace weft::test

#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "comm/kernels/reduce.h"
#include "tests/comm/kernels/reference.h"

namespace weft {
namespace {

constexpr size_t kSizes[] = {0, 1, 7, 64, 4095, 8191, 8192, 8193, 16384, 100003};

std::vector<char> RandomBytes(size_t count) {
  std::mt19937 random(TestSeed());
  std::vector<char> bytes(count);
  for (char& byte : bytes)
    byte = static_cast<char>(random());
  return bytes;
}

TEST(CopyBytes, FillsEveryDestinationAndNothingElse) {
  constexpr size_t kMargin = 64;
  for (const size_t bytes : kSizes) {
    const std::vector<char> source = RandomBytes(bytes + 1);
    for (const int destination_count : {1, 2, 3, 64}) {
      std::vector<std::vector<char>> buffers(destination_count,
                                             std::vector<char>(bytes + 2 * kMargin, '\xa5'));
      std::vector<void*> pointers;
      pointers.reserve(buffers.size());
      for (std::vector<char>& buffer : buffers)
        pointers.push_back(buffer.data() + kMargin);
      CopyBytes(source.data() + 1, pointers.data(), destination_count, bytes);
      std::vector<char> expected(bytes + 2 * kMargin, '\xa5');
      std::memcpy(expected.data() + kMargin, source.data() + 1, bytes);
      for (const std::vector<char>& buffer : buffers) {
        ASSERT_EQ(buffer, expected) << bytes << " bytes to " << destination_count;
      }
    }
  }
}

TEST(CopyBytes, SkipsADestinationThatIsTheSource) {
  std::vector<char> source = RandomBytes(20000);
  const std::vector<char> expected = source;
  std::vector<char> other(source.size());
  void* const destinations[] = {source.data(), other.data()};
  CopyBytes(source.data(), destinations, 2, source.size());
  EXPECT_EQ(source, expected);
  EXPECT_EQ(other, expected);
  CopyBytes(source.data(), destinations, 1, source.size());
  EXPECT_EQ(source, expected);
}

}  // namespace
}  // namespace weft

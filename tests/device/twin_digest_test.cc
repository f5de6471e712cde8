// The digest of device memory is BLAKE3: its authors' test vectors, over the twins of the kernels.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/device/element/digest.h"
#include "tests/device/twins.h"

namespace weft::test::twin_digest_test {
namespace {

using device::ChunksParameters;
using device::kChunkBytes;
using device::kDigestWords;
using device::ParentsParameters;

// As host code drives the kernels: leaves, then level after level between two arrays.
std::string DigestOf(const char* input, size_t bytes) {
  uint64_t count = bytes == 0 ? 1 : (bytes + kChunkBytes - 1) / kChunkBytes;
  std::vector<uint32_t> values(count * kDigestWords);
  std::vector<uint32_t> joined(values.size());
  const ChunksParameters chunks = {input, bytes, count, values.data()};
  FindTwin("weft_digest_chunks")(&chunks, {.blocks = 3, .threads = 5});
  for (; count > 1; count = (count + 1) / 2) {
    const ParentsParameters parents = {values.data(), joined.data(), count};
    FindTwin("weft_digest_parents")(&parents, {.blocks = 2, .threads = 3});
    values.swap(joined);
  }
  std::string text;
  for (int word = 0; word < kDigestWords; ++word) {
    for (int byte = 0; byte < 4; ++byte) {
      constexpr const char* kDigits = "0123456789abcdef";
      const unsigned value = values[static_cast<size_t>(word)] >> (8 * byte) & 0xffu;
      text += kDigits[value >> 4];
      text += kDigits[value & 15];
    }
  }
  return text;
}

struct Vector {
  size_t bytes;
  const char* digest;
};

// github.com/BLAKE3-team/BLAKE3, test_vectors/test_vectors.json: byte i of the input is i mod 251.
constexpr Vector kVectors[] = {
    {0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"},
    {1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213"},
    {1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11"},
    {1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7"},
    {1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444"},
    {2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a"},
    {2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030"},
    {3072, "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2"},
    {3073, "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3"},
    {102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085"},
};

TEST(TwinDigest, IsBlake3) {
  for (const Vector& vector : kVectors) {
    std::vector<char> input(vector.bytes + 32);
    for (const size_t shift : {size_t{0}, size_t{1}, size_t{16}}) {
      for (size_t i = 0; i < vector.bytes; ++i)
        input[shift + i] = static_cast<char>(i % 251);
      EXPECT_EQ(DigestOf(input.data() + shift, vector.bytes), vector.digest)
          << vector.bytes << " bytes, " << shift << " bytes off";
    }
  }
}

}  // namespace
}  // namespace weft::test::twin_digest_test

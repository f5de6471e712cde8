// No library: those of the distribution come as shared objects alone, and libweft.so needs none of its own.
#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace weft {
namespace {

#if defined(__x86_64__)
constexpr size_t kLaneBytes = 4096;

// What a lane of zeros makes of a sum that was not inverted: of each of its four bytes, by the byte's value. Sums are linear, so the rest is
// adding (xor) them.
using LaneTable = std::array<std::array<uint32_t, 256>, sizeof(uint32_t)>;

constexpr LaneTable MakeLaneTable() {
  LaneTable table{};
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t sum = uint32_t{1} << bit;
    for (size_t i = 0; i < kLaneBytes; ++i)
      sum = (sum >> 8) ^ kCrcTable[sum & 0xff];
    // This bit's part of each value that has it.
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if ((byte >> (bit % 8) & 1) != 0) table[static_cast<size_t>(bit / 8)][byte] ^= sum;
    }
  }
  return table;
}

constexpr LaneTable kLaneTable = MakeLaneTable();

uint32_t AfterLane(uint64_t sum) {
  return kLaneTable[0][sum & 0xff] ^ kLaneTable[1][sum >> 8 & 0xff] ^
         kLaneTable[2][sum >> 16 & 0xff] ^ kLaneTable[3][sum >> 24 & 0xff];
}

// An instruction takes three cycles, and three of them may be under way: so three lanes at a time.
__attribute__((target("sse4.2"))) uint32_t Crc32cByInstruction(uint32_t sum, const void* data,
                                                               size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  uint64_t wide = ~sum;
  for (; bytes >= 3 * kLaneBytes; bytes -= 3 * kLaneBytes, at += 3 * kLaneBytes) {
    uint64_t second = 0;
    uint64_t third = 0;
    for (size_t i = 0; i < kLaneBytes; i += sizeof(uint64_t)) {
      std::array<uint64_t, 3> words{};
      for (size_t lane = 0; lane < words.size(); ++lane)
        std::memcpy(&words[lane], at + lane * kLaneBytes + i, sizeof(uint64_t));
      wide = _mm_crc32_u64(wide, words[0]);
      second = _mm_crc32_u64(second, words[1]);
      third = _mm_crc32_u64(third, words[2]);
    }
    wide = AfterLane(AfterLane(wide) ^ second) ^ third;
  }
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, at, sizeof(word));
    wide = _mm_crc32_u64(wide, word);
  }
  auto narrow = static_cast<uint32_t>(wide);
  for (; bytes > 0; --bytes, ++at)
    narrow = _mm_crc32_u8(narrow, *at);
  return ~narrow;
}
#endif

}  // namespace

uint32_t Crc32c(uint32_t sum, const void* data, size_t bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return Crc32cByInstruction(sum, data, bytes);
#endif
  return Crc32cByTable(sum, data, bytes);
}

}  // namespace weft

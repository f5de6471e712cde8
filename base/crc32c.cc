// No library: those of the distribution come as shared objects alone, and libweft.so needs none of its own.
#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace weft {
namespace {

constexpr uint32_t kReversedPolynomial = 0x82f63b78;

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit)
      sum = (sum >> 1) ^ ((sum & 1) != 0 ? kReversedPolynomial : 0);
    table[byte] = sum;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Crc32cByInstruction(uint32_t sum, const void* data,
                                                               size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  uint64_t wide = ~sum;
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

uint32_t Crc32cByTable(uint32_t sum, const void* data, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  sum = ~sum;
  for (; bytes > 0; --bytes, ++at)
    sum = (sum >> 8) ^ kCrcTable[(sum ^ *at) & 0xff];
  return ~sum;
}

uint32_t Crc32c(uint32_t sum, const void* data, size_t bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return Crc32cByInstruction(sum, data, bytes);
#endif
  return Crc32cByTable(sum, data, bytes);
}

}  // namespace weft

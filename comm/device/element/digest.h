// The digest of memory on a device: BLAKE3 (docs/formats/digest.md), which is a tree, so that thousands of threads share it. A thread
// hashes a chunk of 1,024 bytes to a chaining value of eight words; then a thread joins two of these, level after level, until one is left.
//
//   ChunkValue(parameters, chunk, value);             // leaves
//   ParentValue(left, right, is_root, value);         // the rest; an odd last value goes up as it is
//
// Source: O'Connor, Aumasson, Neves, Wilcox-O'Hearn: BLAKE3, one function, fast everywhere, 2020; sections 2.1 to 2.5.
#pragma once

#include "comm/device/element/worker.h"

namespace weft::device {

constexpr int kDigestWords = 8;  // of 32 bits, little-endian
constexpr uint64_t kChunkBytes = 1024;
constexpr unsigned kDigestBlockBytes = 64;

using ChainingValue = Packet<uint32_t, kDigestWords>;

// Chunks [0, chunk_count) of the input are hashed to values[0 .. chunk_count). An input of no bytes is one chunk.
struct ChunksParameters {
  const void* input;
  uint64_t bytes;
  uint64_t chunk_count;
  uint32_t* values;  // aligned to 32 bytes
};

// Neighbours of from[0 .. count) are joined into to[0 .. (count + 1) / 2), which is other memory. Two that are all there is make the root.
struct ParentsParameters {
  const uint32_t* from;
  uint32_t* to;
  uint64_t count;
};

enum : uint32_t { kChunkStart = 1, kChunkEnd = 2, kParent = 4, kRoot = 8 };

WEFT_INLINE ChainingValue InitialValue() {
  return {{0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu,
           0x1f83d9abu, 0x5be0cd19u}};
}

WEFT_INLINE uint32_t RotateRight(uint32_t word, int by) {
  return word >> by | word << (32 - by);
}

WEFT_INLINE void MixColumn(uint32_t (&state)[16], int a, int b, int c, int d, uint32_t first,
                           uint32_t second) {
  state[a] = state[a] + state[b] + first;
  state[d] = RotateRight(state[d] ^ state[a], 16);
  state[c] = state[c] + state[d];
  state[b] = RotateRight(state[b] ^ state[c], 12);
  state[a] = state[a] + state[b] + second;
  state[d] = RotateRight(state[d] ^ state[a], 8);
  state[c] = state[c] + state[d];
  state[b] = RotateRight(state[b] ^ state[c], 7);
}

WEFT_INLINE void MixRound(uint32_t (&state)[16], const uint32_t (&words)[16]) {
  MixColumn(state, 0, 4, 8, 12, words[0], words[1]);
  MixColumn(state, 1, 5, 9, 13, words[2], words[3]);
  MixColumn(state, 2, 6, 10, 14, words[4], words[5]);
  MixColumn(state, 3, 7, 11, 15, words[6], words[7]);
  MixColumn(state, 0, 5, 10, 15, words[8], words[9]);
  MixColumn(state, 1, 6, 11, 12, words[10], words[11]);
  MixColumn(state, 2, 7, 8, 13, words[12], words[13]);
  MixColumn(state, 3, 4, 9, 14, words[14], words[15]);
}

WEFT_INLINE void PermuteWords(uint32_t (&words)[16]) {
  constexpr int kFrom[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
  uint32_t permuted[16];
  WEFT_UNROLL
  for (int i = 0; i < 16; ++i)
    permuted[i] = words[kFrom[i]];
  WEFT_UNROLL
  for (int i = 0; i < 16; ++i)
    words[i] = permuted[i];
}

// The compression function; of its 16 words of output the first eight.
WEFT_INLINE ChainingValue Compress(const ChainingValue& value, uint32_t (&words)[16],
                                   uint64_t counter, uint32_t block_bytes, uint32_t flags) {
  constexpr int kRounds = 7;
  const ChainingValue initial = InitialValue();
  uint32_t state[16];
  WEFT_UNROLL
  for (int i = 0; i < kDigestWords; ++i)
    state[i] = value.at[i];
  WEFT_UNROLL
  for (int i = 0; i < 4; ++i)
    state[8 + i] = initial.at[i];
  state[12] = static_cast<uint32_t>(counter);
  state[13] = static_cast<uint32_t>(counter >> 32);
  state[14] = block_bytes;
  state[15] = flags;
  WEFT_UNROLL
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) PermuteWords(words);
    MixRound(state, words);
  }
  ChainingValue made;
  WEFT_UNROLL
  for (int i = 0; i < kDigestWords; ++i)
    made.at[i] = state[i] ^ state[8 + i];
  return made;
}

// The words of a block of `bytes` bytes, of which those behind the end are zero.
WEFT_INLINE void LoadBlock(const char* from, unsigned bytes, uint32_t (&words)[16]) {
  if (bytes == kDigestBlockBytes && (reinterpret_cast<uint64_t>(from) & 15) == 0) {
    const auto block = LoadPacket<uint32_t, 16>(from);
    WEFT_UNROLL
    for (int i = 0; i < 16; ++i)
      words[i] = block.at[i];
    return;
  }
  WEFT_UNROLL
  for (unsigned i = 0; i < 16; ++i) {
    uint32_t word = 0;
    WEFT_UNROLL
    for (unsigned byte = 0; byte < 4; ++byte) {
      if (4 * i + byte < bytes)
        word |= uint32_t{static_cast<uint8_t>(from[4 * i + byte])} << (8 * byte);
    }
    words[i] = word;
  }
}

WEFT_INLINE ChainingValue ChunkValue(const ChunksParameters& parameters, uint64_t chunk) {
  const char* const from = static_cast<const char*>(parameters.input) + chunk * kChunkBytes;
  const uint64_t left = parameters.bytes - chunk * kChunkBytes;
  const auto bytes = static_cast<unsigned>(left < kChunkBytes ? left : kChunkBytes);
  const unsigned blocks = bytes == 0 ? 1 : (bytes + kDigestBlockBytes - 1) / kDigestBlockBytes;
  ChainingValue value = InitialValue();
  for (unsigned block = 0; block < blocks; ++block) {
    const unsigned done = block * kDigestBlockBytes;
    const unsigned rest = bytes - done;
    const unsigned block_bytes = rest < kDigestBlockBytes ? rest : kDigestBlockBytes;
    uint32_t flags = block == 0 ? kChunkStart : 0u;
    if (block + 1 == blocks) flags |= kChunkEnd | (parameters.chunk_count == 1 ? kRoot : 0u);
    uint32_t words[16];
    LoadBlock(from + done, block_bytes, words);
    value = Compress(value, words, chunk, block_bytes, flags);
  }
  return value;
}

WEFT_INLINE ChainingValue ParentValue(const ChainingValue& left, const ChainingValue& right,
                                      bool is_root) {
  uint32_t words[16];
  WEFT_UNROLL
  for (int i = 0; i < kDigestWords; ++i) {
    words[i] = left.at[i];
    words[8 + i] = right.at[i];
  }
  return Compress(InitialValue(), words, 0, kDigestBlockBytes,
                  kParent | (is_root ? uint32_t{kRoot} : 0u));
}

WEFT_INLINE ChainingValue LoadValue(const uint32_t* values, uint64_t i) {
  return LoadPacket<uint32_t, kDigestWords>(
      reinterpret_cast<const char*>(values + i * kDigestWords));
}

WEFT_INLINE void StoreValue(uint32_t* values, uint64_t i, const ChainingValue& value) {
  StorePacket(reinterpret_cast<char*>(values + i * kDigestWords), value);
}

WEFT_INLINE void DigestChunks(const ChunksParameters& parameters, const Worker& worker) {
  for (uint64_t chunk = worker.index; chunk < parameters.chunk_count; chunk += worker.count)
    StoreValue(parameters.values, chunk, ChunkValue(parameters, chunk));
}

WEFT_INLINE void DigestParents(const ParentsParameters& parameters, const Worker& worker) {
  const bool is_root = parameters.count == 2;
  for (uint64_t i = worker.index; 2 * i < parameters.count; i += worker.count) {
    const ChainingValue left = LoadValue(parameters.from, 2 * i);
    if (2 * i + 1 == parameters.count) {
      StoreValue(parameters.to, i, left);
    } else {
      StoreValue(parameters.to, i,
                 ParentValue(left, LoadValue(parameters.from, 2 * i + 1), is_root));
    }
  }
}

}  // namespace weft::device

// Copies on a device, one thread's part: with a factor and another type, from and into lists of pieces, and of one pattern.
//
//   CastElements<Float32, Bfloat16>(parameters, worker);
//   MovePieces<true>(parameters, worker);                   // many pieces become one
//   FillBytes(parameters, worker);
#pragma once

#include "comm/device/element/element.h"
#include "comm/device/element/worker.h"

namespace weft::device {

// Each element is multiplied in float64 and rounded to float32 and from there to the type, as ScaleGradients does
// (shard/optimizer/optimizer_kernels.h); into float64 it is rounded by the product alone. With a factor of 1 nothing is multiplied.
struct CastParameters {
  PacketRange range;
  double factor;
  const void* source;
  void* destination;  // may be `source` if its elements have the same size
};

template <typename In, typename Out>
WEFT_INLINE typename Out::Raw CastOne(typename In::Raw raw, double factor, bool scaled) {
  const auto value = In::Widen(raw);
  if constexpr (sizeof(typename Out::Accumulator) == sizeof(double)) {
    const double wide = static_cast<double>(value);
    return Out::Narrow(scaled ? wide * factor : wide);
  } else {
    const float rounded = static_cast<float>(scaled ? static_cast<double>(value) * factor : value);
    return Out::Narrow(rounded);
  }
}

template <typename In, typename Out, int kWidth>
WEFT_INLINE void CastAt(const CastParameters& parameters, uint64_t element, bool scaled) {
  using InRaw = typename In::Raw;
  using OutRaw = typename Out::Raw;
  const auto raw = LoadPacket<InRaw, kWidth>(static_cast<const char*>(parameters.source) +
                                             element * sizeof(InRaw));
  Packet<OutRaw, kWidth> made;
  WEFT_UNROLL
  for (int i = 0; i < kWidth; ++i)
    made.at[i] = CastOne<In, Out>(raw.at[i], parameters.factor, scaled);
  StorePacket(static_cast<char*>(parameters.destination) + element * sizeof(OutRaw), made);
}

// Elements of a packet: eight, or an access of 16 bytes of the smaller ones if these are fewer.
constexpr int CastWidth(size_t from_bytes, size_t to_bytes) {
  const int width = 16 / static_cast<int>(from_bytes < to_bytes ? from_bytes : to_bytes);
  return width < 8 ? width : 8;
}

template <typename In, typename Out>
WEFT_INLINE void CastElements(const CastParameters& parameters, const Worker& worker) {
  constexpr int kWidth = CastWidth(sizeof(typename In::Raw), sizeof(typename Out::Raw));
  const bool scaled = parameters.factor != 1;
  ForEachPacket<kWidth>(
      worker, parameters.range,
      [&](uint64_t element) { CastAt<In, Out, kWidth>(parameters, element, scaled); },
      [&](uint64_t element) { CastAt<In, Out, 1>(parameters, element, scaled); });
}

// A list of pieces, of bytes, and a block that has them one after another.
constexpr int kPiecesMax = 128;

struct PiecesParameters {
  void* block;
  int32_t piece_count;
  void* pieces[kPiecesMax];
  uint64_t begins[kPiecesMax + 1];  // of each piece in the block, then where the last one ends
};

// The piece that has a byte of the block. Pieces of no bytes have none.
WEFT_INLINE int PieceAt(const PiecesParameters& parameters, uint64_t at) {
  int low = 0;
  int high = parameters.piece_count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (parameters.begins[middle] <= at) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <int kBytes>
WEFT_INLINE bool MoveWhole(char* to, const char* from, uint64_t bytes) {
  if (((reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from) | bytes) &
       (kBytes - 1)) != 0) {
    return false;
  }
  for (uint64_t done = 0; done < bytes; done += kBytes)
    StorePacket(to + done, LoadPacket<uint8_t, kBytes>(from + done));
  return true;
}

// The bytes [at, at + bytes) of the block, which lie in one piece: by the widest access that fits.
template <bool kGather>
WEFT_INLINE void MoveInPiece(const PiecesParameters& parameters, int piece, uint64_t at,
                             uint64_t bytes) {
  char* const in_block = static_cast<char*>(parameters.block) + at;
  char* const in_piece =
      static_cast<char*>(parameters.pieces[piece]) + (at - parameters.begins[piece]);
  char* const to = kGather ? in_block : in_piece;
  const char* const from = kGather ? in_piece : in_block;
  if (MoveWhole<16>(to, from, bytes) || MoveWhole<4>(to, from, bytes)) return;
  MoveWhole<1>(to, from, bytes);
}

// kGather: the pieces are copied into the block, else the block into the pieces.
template <bool kGather>
WEFT_INLINE void MovePieces(const PiecesParameters& parameters, const Worker& worker) {
  constexpr uint64_t kUnit = 16;
  const uint64_t end = parameters.begins[parameters.piece_count];
  for (uint64_t unit = worker.index; unit * kUnit < end; unit += worker.count) {
    uint64_t at = unit * kUnit;
    const uint64_t unit_end = at + kUnit < end ? at + kUnit : end;
    for (int piece = PieceAt(parameters, at); at < unit_end; ++piece) {
      const uint64_t piece_end = parameters.begins[piece + 1];
      const uint64_t stop = piece_end < unit_end ? piece_end : unit_end;
      if (stop > at) MoveInPiece<kGather>(parameters, piece, at, stop - at);
      at = stop > at ? stop : at;
    }
  }
}

// A pattern that repeats every 16 bytes, of which the first lies at the first byte. Packets of 16 bytes.
struct FillParameters {
  PacketRange range;  // in bytes
  void* destination;
  uint8_t pattern[16];
};

WEFT_INLINE void FillBytes(const FillParameters& parameters, const Worker& worker) {
  char* const destination = static_cast<char*>(parameters.destination);
  Packet<uint8_t, 16> packet;  // the pattern as it is where packets begin
  WEFT_UNROLL
  for (unsigned i = 0; i < 16; ++i)
    packet.at[i] = parameters.pattern[(parameters.range.first + i) % 16];
  ForEachPacket<16>(
      worker, parameters.range, [&](uint64_t at) { StorePacket(destination + at, packet); },
      [&](uint64_t at) { destination[at] = static_cast<char>(parameters.pattern[at % 16]); });
}

}  // namespace weft::device

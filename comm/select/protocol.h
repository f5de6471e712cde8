// The ways in which the data of a call may travel between the ranks of a node, and what limits them.
//
// docs/design/003-node.md says what each of them moves; select_protocol.h which one a call takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft {

// Numbers stand in flight-recorder files: never reused.
enum class Protocol : uint8_t {
  kAuto = 0,    // asked of weft: it shall choose. As a choice: known when all ranks have arrived
  kInline = 1,  // in the arrival line
  kSlot = 2,    // in a slot, with the arrival
  kDirect = 3,  // between the callers' buffers, which peers can reach
  kStaged = 4,  // through the ranks' staging, in rounds
  kSingleCopy = 5,  // from private buffers, by the kernel
  kSingleRank = 6,  // not at all: the group has one rank
};

// Those that a caller may name come first.
constexpr int kNamedProtocolCount = 6;

// Those between ranks, as tables show them.
inline constexpr std::array kRankProtocols = {Protocol::kInline, Protocol::kSlot, Protocol::kStaged,
                                              Protocol::kDirect, Protocol::kSingleCopy};

// "auto", "inline", "slot", "direct", "staged", "single_copy", "single_rank"
const char* ProtocolName(Protocol protocol);

// All data comes with the arrivals, and every rank makes its own result.
constexpr bool IsOneShot(Protocol protocol) {
  return protocol == Protocol::kInline || protocol == Protocol::kSlot;
}

constexpr size_t kInlineBytes = 48;   // payload of an arrival line
constexpr size_t kFactorOffset = 40;  // offset in the line's payload of a premul_sum's factor
constexpr size_t kSlotBytes = 8192;   // payload of a slot

}  // namespace weft

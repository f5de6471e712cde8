// What the ranks of a group agree on: sizes at which protocols change, kinds of stores, how to wait.
//
//   const Tuning tuning = Choose(model, ranks);        // on the group's rank 0, into shared memory
//   WEFT_RETURN_IF_ERROR(Validate(tuning, ranks));            // on every rank, of what it found there
//
// Choices by size must be the same on all ranks, and two ranks need not have measured the same. Hence
// one rank chooses, and its choice is plain bytes of a fixed layout that lie in the segment. What was
// read from there came from a peer: it is checked before it is used, and a copy is used.
// Where each number comes from: docs/design/006-selection.md.
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "comm/select/machine_model.h"
#include "comm/select/protocol.h"

namespace weft {

constexpr uint32_t kTuningVersion = 4;
constexpr uint32_t kSlotLimitBytesMin = 256;
constexpr uint32_t kSlotLimitBytesMax = kSlotBytes;
constexpr uint32_t kStagePieceBytesMin = 16 << 10;
constexpr uint32_t kStagePieceBytesMax = 256 << 10;
constexpr uint32_t kSpinsMax = 100'000;
constexpr uint32_t kYieldsMax = 1000;
// Bytes of the pieces of all owners together, which is what a rank stages at a time.
constexpr uint64_t kStagePiecesBytesMax = 1 << 20;
// Staging has room for so many rounds, each with a piece per owner and one of results.
constexpr uint64_t kStageRounds = 4;
constexpr uint64_t kStageRingBytesMax = 16 << 20;
constexpr uint64_t kSlotRingBytesMin = 64 << 10;
constexpr uint64_t kSlotRingBytesMax = 8 << 20;
constexpr uint64_t kNever = UINT64_MAX;  // as a least size
// A message of private memory that is not read by single copy is streamed in chunks of this size.
constexpr uint32_t kMessageChunkBytes = 128 << 10;
// A streamed line comes from memory: while both ranks write and read, and a reduction reads two streams,
// that costs this much more than reading such lines alone (measured: an AMD Zen 4 in one core complex, where
// streaming all of it would otherwise look twice as good as it is).
constexpr double kStreamPenaltyLineNs = 8;

struct Tuning {
  uint32_t version = kTuningVersion;

  // One-shot, by slots, up to here; more than inline (48) and at most kSlotLimitBytesMax.
  uint32_t slot_limit_bytes = kSlotLimitBytesMax;
  // Bytes that one owner gets per round of the staged pipeline. A multiple of 4096.
  uint32_t stage_piece_bytes = 64 << 10;
  // Staging is written with non-temporal stores (1) or plain ones (0), see stream_stage_min_bytes.
  uint8_t stream_stage = 0;
  // The ranks outnumber the CPUs that they may use (1): they count their arrivals at one word, and the last one to arrive
  // reduces what lies in slots for all.
  uint8_t combine = 0;
  uint8_t reserved[2] = {0, 0};
  // stream_stage holds for calls of at least this many bytes. Which stores a rank uses is its own affair, and
  // it goes on watching what they cost (comm/node/adaptive_copy.h): this is where it begins.
  uint64_t stream_stage_min_bytes = kNever;
  // Copies into a caller's output of at least this many bytes, all of its blocks together, use
  // non-temporal stores.
  uint64_t stream_out_min_bytes = kNever;
  // Private memory by process_vm_readv, from this size of a block on: all_gather and all_to_all,
  uint64_t single_copy_min_bytes = kNever;
  // broadcast, whose root and readers work at the same time when it is staged,
  uint64_t single_copy_broadcast_min_bytes = kNever;
  // gather and scatter, whose time is the root's.
  uint64_t single_copy_rooted_min_bytes = kNever;
  // a message from one rank to another, of all its bytes.
  uint64_t single_copy_message_min_bytes = kNever;
  // A waiting rank probes so often, then yields so often, then sleeps (base/wait.h).
  uint32_t spins = 2000;
  uint32_t yields = 50;
  // A rank's staging. A multiple of 4096.
  uint64_t stage_ring_bytes = 2 << 20;
  // Rounds take so much of it before they begin again, but at least four rounds; at most all of it.
  uint64_t stage_lap_bytes = 2 << 20;
  // The ring for slots of 4 KiB and more, which lies behind the staging. A multiple of 4096.
  uint64_t slot_ring_bytes = 1 << 20;
};

static_assert(sizeof(Tuning) == 96);
static_assert(std::is_trivially_copyable_v<Tuning>);

// The best choice for `ranks` ranks of the machine, at least 1. Always one that Validate accepts,
// whatever the model says.
Tuning Choose(const MachineModel& model, int ranks);

// OK if every member is within the limits above, for `ranks` ranks; CORRUPT with the member's name and value if not.
absl::Status Validate(const Tuning& tuning, int ranks);

// Whether a call of `bytes` bytes writes its staging with non-temporal stores.
inline bool StreamsStage(const Tuning& tuning, uint64_t bytes) {
  return tuning.stream_stage != 0 && bytes >= tuning.stream_stage_min_bytes;
}

}  // namespace weft

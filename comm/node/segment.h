// The memory that the ranks of one group share on a node: a header, one control block per rank, a
// ring of small slots per rank, the flight recorder of each rank, one block for messages per rank, a board that says why the group has
// ended, one on which its ranks agree on the group after it; and, if they outnumber their CPUs, one word at which they count their
// arrivals and results that one makes for all.
//
// It is one block in the heap of the group's rank 0; every rank finds each part by its own arithmetic
// (rank count and the constants here), never by a length or offset that stands in shared memory.
//
// Who writes what. Header: rank 0, before anybody else has it, except failure. A control
// block and recorder: their rank only (sleepers of an EventCount excepted, see base/wait.h). A slot: its rank, or the
// other one of two that write in turn (SlotProtocol::Of). A message block: its rank, but for `events` and inbox[s],
// which others write, as said there.
// Invariants, on which docs/design/003-node.md builds its proof:
//  I1  arrivals[s % kWindow] and places[s % kWindow] of rank r hold operation s; they are written only when every
//      rank has published done >= s - kWindow.
//  I2  slot k of a rank is written, by whoever, for an operation only when every rank has published done >= the
//      operation that used slot k before.
//  I3  staged and reduced never fall, and every rank adds the same number to them per operation.
//  I4  done = s is published after the rank has stopped reading what others published for s.
//  I5  a rank counts itself in for s once, after its arrival. The last of all publishes arrived = s before it announces
//      s + 1, so arrived never falls; results[k] is written before, by that rank, for an operation in slot k.
// Sequence numbers are 64 bits locally and 32 bits in memory, compared modulo 2^32.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "base/wait.h"
#include "comm/group/call_identity.h"
#include "comm/group/notice_board.h"
#include "comm/node/failure_board.h"
#include "comm/node/reconfigure_board.h"
#include "comm/recorder/lifecycle.h"
#include "comm/recorder/message_ring.h"
#include "comm/recorder/ring.h"
#include "comm/select/protocol.h"
#include "comm/select/tuning.h"

namespace weft {

constexpr int kNodeRanksMax = 64;
constexpr uint64_t kWindow = 32;    // operations whose arrival may be outstanding
constexpr uint32_t kSlotCount = 4;  // slots per rank
// A rank publishes `wrote` at least every so many operations, even if it has written nothing. Numbers in memory are compared
// modulo 2^32, so one that stood still for half of them would seem to lie ahead.
constexpr uint64_t kWroteRefresh = uint64_t{1} << 30;
constexpr uint64_t kSegmentMagic = 0x31'74'66'65'77ULL;  // "weft1"
constexpr uint32_t kSegmentVersion = 12;

// In an arrival's epoch: the writer's out, of an operation whose result is the same for all, lies in a shared
// block (shared_blocks.h), and may be the out of other ranks too.
constexpr uint32_t kOutIsShared = uint32_t{1} << 31;

// Kinds of memory, as told to peers: not to be used by them, in a heap of a rank, elsewhere in the process.
enum class MemoryKind : uint8_t { kHidden = 0, kHeap = 1, kPrivate = 2 };

// What a rank says when it enters an operation: one cache line. Operations of at most kInlineBytes
// per rank carry their data, larger ones all that the ranks must agree on, and of what kind the buffers are.
struct alignas(64) Arrival {
  std::atomic<uint32_t> sequence;  // published last
  uint32_t signature;              // of what all ranks must agree on
  uint32_t epoch;                  // of the membership; kOutIsShared
  uint32_t done;                   // last operation that the writer had finished

  union {
    unsigned char data[kInlineBytes];

    struct {
      CallIdentity identity;
      // The rest only of operations larger than a slot.
      MemoryKind in_kind;
      MemoryKind out_kind;
      uint8_t rounds_staged;  // of this operation, before it was announced
      uint8_t reads_peers;    // 1 if the writer may read every peer's private memory
      uint8_t in_owner;       // the rank in whose heap it is, which may be another than the writer
      uint8_t out_owner;
    } told;
  };
};

static_assert(sizeof(Arrival) == 64);
static_assert(sizeof(Arrival::told) <= kFactorOffset);

// Where the writer's buffers are, written with the arrival of an operation larger than a slot. What peers may read and
// write lies within, whatever they think the operation is.
struct alignas(64) BufferPlaces {
  uint64_t
      in_offset;  // if in_kind is kHeap: in in_owner's heap, or in its files (file_ranges.h); its address if kPrivate
  uint64_t in_bytes;    // from there on
  uint64_t out_offset;  // as in_offset; of a shared result in the heap out_heap
  uint64_t out_bytes;
  uint64_t out_heap;  // only if kOutIsShared: the heap's id, which may be any rank's
};

static_assert(sizeof(BufferPlaces) == 64);

// A notice (notice_board.h) as it stands in the segment, written by its rank only. `version` is 0 while there is no notice
// or it is being written, and another number for each notice. Who reads the same version before and after has read one
// notice.
struct alignas(64) NoticePlace {
  std::atomic<uint64_t> version;
  std::atomic<uint64_t> words[std::tuple_size_v<WaitNotice>];
};

// kLeaving: starts no operation and reads no peer's staging any more. kLeft: does not read the segment
// either.
enum class RankState : uint32_t { kAbsent = 0, kJoined = 1, kLeaving = 2, kLeft = 3 };

constexpr uint32_t kUnknownCpu = UINT32_MAX;

struct RankControl {
  alignas(128) EventCount waiters;  // notified when any word below changes
  alignas(128) std::atomic<uint32_t> staged;
  alignas(64) std::atomic<uint32_t> reduced;
  alignas(128)
      std::atomic<uint32_t> done;  // last operation after which this rank reads nothing of others
  std::atomic<uint32_t>
      wrote;  // last operation whose shared result this rank has written its part of
  std::atomic<uint32_t> peer_access;      // 1 while it may touch peers' memory
  std::atomic<uint32_t> reduces_for_all;  // 1 while the others may wait for what it reduces
  std::atomic<uint32_t>
      cpu;  // that it was seen on when it began its last blocking call, or kUnknownCpu
  std::atomic<RankState> state;
  std::atomic<uint32_t> maps_files;    // 1 if it reaches what its peers have registered of files
  std::atomic<uint64_t> stage_offset;  // of its staging, in its heap; set before the first `staged`
  std::atomic<uint64_t> long_wait;     // of a collective (long_wait.h)
  int32_t pid;
  uint64_t start_time;
  alignas(64) Arrival arrivals[kWindow];
  alignas(64) BufferPlaces places[kWindow];
  NoticePlace notices[NoticeBoard::kAllPlaces];
};

// What a rank records, zeroed at first.
struct alignas(128) RecorderMemory {
  RecorderEntry calls[RecorderRing::kEntryCount];
  RecorderEntry messages[MessageRing::kEntryCount];
  LifecycleMemory lifecycle;
};

// What a rank's sends and receives share with the other ranks (message_engine.h).
struct MessageControl {
  alignas(128) EventCount waiters;  // notified when a word of the next line changes
  alignas(
      64) std::atomic<uint32_t> events;  // counted up by any rank that did what this one waits for
  std::atomic<uint32_t> peer_access;     // 1 while it copies from a peer's buffer
  std::atomic<uint32_t> long_wait;       // for whom its oldest message waits (long_wait.h)
  // By rank: 1 + offset of that rank's channel to this one, in its heap; written by that rank.
  alignas(64) std::atomic<uint64_t> inbox[kNodeRanksMax];
};

// Only in groups whose Tuning says combine; written by any rank (arrival_counter.h).
struct ArrivalCounter {
  alignas(128) EventCount waiters;            // notified when arrived changes
  alignas(64) std::atomic<uint32_t> arrived;  // last operation that all ranks have announced
  // By operation: ranks that have counted themselves in, since the group was made. So nothing is ever reset that a
  // late rank might count in.
  alignas(64) std::atomic<uint64_t> announced[kWindow];
  alignas(128) char results[kSlotCount][kSlotBytes];  // what was reduced from the ranks' slots
};

struct SegmentHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t epoch;
  uint64_t group_id;
  uint32_t size;
  alignas(64) std::atomic<
      uint64_t> failure;      // the word of the FailureBoard, whose records stand at the end
  alignas(64) Tuning tuning;  // as rank 0 chose it; checked by whoever reads it
};

// A view of a segment in this process.
class Segment {
 public:
  Segment() = default;

  Segment(char* base, int size) : base_(base), size_(size) {}

  static size_t Bytes(int size, bool with_counter);
  // Writes the header into zeroed memory; `tuning` says whether there is an ArrivalCounter.
  static Segment Create(char* base, int size, uint64_t group_id, uint32_t epoch,
                        const Tuning& tuning);
  // True if `base` holds a segment of this version, group and size.
  bool Valid(uint64_t group_id, uint32_t epoch) const;

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }

  RankControl& control(int rank) const {
    return reinterpret_cast<RankControl*>(base_ + kHeaderBytes)[rank];
  }

  char* slot(int rank, uint32_t index) const {
    return base_ + kHeaderBytes + static_cast<size_t>(size_) * sizeof(RankControl) +
           (static_cast<size_t>(rank) * kSlotCount + index) * kSlotBytes;
  }

  RecorderMemory& recorder_memory(int rank) const;

  RecorderRing recorder(int rank) const { return RecorderRing(recorder_memory(rank).calls); }

  MessageRing message_ring(int rank) const { return MessageRing(recorder_memory(rank).messages); }

  LifecycleLog lifecycle(int rank) const { return LifecycleLog(&recorder_memory(rank).lifecycle); }

  MessageControl& messages(int rank) const;
  FailureBoard board() const;
  ReconfigureBoard reconfigure_board() const;
  // Only in groups whose Tuning says combine.
  ArrivalCounter& arrival_counter() const;

  char* base() const { return base_; }

 private:
  static constexpr size_t kHeaderBytes = 256;
  static_assert(sizeof(SegmentHeader) <= kHeaderBytes);

  char* BoardBase() const;

  char* base_ = nullptr;
  int size_ = 0;
};

}  // namespace weft

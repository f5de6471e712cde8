// One collective of one rank on a node, as a state machine.
//
//   Operation operation(prepared, sequence);
//   operation.Issue(state);                              // publishes the arrival
//   while (operation.Step(state) == Operation::Result::kBlocked) wait for operation.target();
//
// Every operation begins with an arrival of every rank at every rank; what the arrivals say of the call
// is compared then, so that a mismatch is known on all ranks before a byte of a result is written.
// What happens next depends on the operation's size and on what the arrivals say of the buffers:
//   inline, slot   <= 48 B, <= 8 KiB: the data came with the arrival; each rank reduces or copies
//   direct         buffers in symmetric heaps: read from and written to peers' memory
//   single_copy    operations that only copy, private buffers: read from peers' memory by the kernel
//   staged         all others: through the ranks' staging, in rounds
// Ranks that outnumber their CPUs meet at one word, and the last one reduces slots for all (operation_combined.cc).
// Forms in which a rank knows only its own counts put a table of them into the slot, with the data
// behind it when there is room (operation_rows.cc).
// docs/design/003-node.md has the bytes moved and the proof that nothing is overwritten too early.
//
// Thread-safety: none; runs by whoever may touch the group's NodeState. Never waits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "comm/group/collective.h"
#include "comm/kernels/reduce.h"
#include "comm/node/call_facts.h"
#include "comm/node/node_state.h"
#include "comm/node/prepared_call.h"

namespace weft {

class Operation {
 public:
  // kRefused: ended with error() on all ranks alike, and the group works on.
  enum class Result { kDone, kBlocked, kFailed, kRefused };

  // `prepared` outlives the operation.
  Operation(const PreparedCall& prepared, uint64_t sequence)
      : prepared_(prepared),
        call_(prepared.call),
        shape_(prepared.shape),
        sequence_(sequence),
        signature_(prepared.signature) {}

  // Publishes this rank's arrival, and what it can stage at once; kBlocked while the window or a slot is still
  // in use: by this rank itself only if older operations have not been done, then there is no target().
  // Operations of a group are issued in order.
  Result Issue(NodeState& state);

  // Issue, unless that has been done, and then Step: for an operation with nothing before it.
  Result Advance(NodeState& state);

  bool issued() const { return issued_; }

  // What an operation needs that stages for sure, once per group; OUT_OF_MEMORY: nothing has happened.
  static absl::Status MakeStage(NodeState& state);

  // Goes on as far as it can. Only the group's oldest operation may be stepped, after Issue.
  Result Step(NodeState& state);

  // After kBlocked.
  const WaitTarget& target() const { return target_; }

  uint32_t signature() const { return signature_; }

  // After kFailed and kRefused; `odd_rank` is a rank whose call differs from this one, or -1.
  const absl::Status& error() const { return error_; }

  int odd_rank() const { return odd_rank_; }

  // After kFailed: a rank whose memory could not be read, or -1.
  int unread_peer() const { return unread_peer_; }

  const Collective& call() const { return call_; }

  const PreparedCall& prepared() const { return prepared_; }

  uint64_t sequence() const { return sequence_; }

  // True if peers may have been told where in the heap this rank's buffers are.
  bool exposed() const { return exposed_; }

 private:
  using Size = CallSize;
  enum class Phase : uint8_t { kBroken, kArrive, kMeet, kTurn, kWriters, kDirectWait, kStaged };

  struct Piece {
    size_t begin = 0;  // element within the buffer or block
    size_t count = 0;
  };

  // What a staged operation goes by; set by BeginStaged.
  struct Rounds {
    size_t piece_elements;  // what one owner's piece of a round holds at most
    size_t piece_bytes;     // from one owner's piece to the next, in the staging of a round
    size_t part_bytes;      // staging of a round
    size_t parts[2];        // offsets of that of the last two rounds
    bool turns;             // two ranks write where they read last (turned_stage.h)
    bool turned[2];         // of the last two rounds: into each other's area
    size_t count;
    size_t staged;   // rounds that this rank has staged
    size_t current;  // round to reduce or gather
    bool reduced;    // the current round has been reduced
    size_t pieces;   // behind which the results lie
    int ranks;
  };

  Result Block(int peer, const std::atomic<uint32_t>& word, uint32_t want);
  Result Fail(absl::Status error);

  Result Finish(NodeState& state) {
    state.completed = sequence_;
    if (sequence_ % kWroteRefresh == 0) [[unlikely]] {
      state.self().wrote.store(static_cast<uint32_t>(sequence_), std::memory_order_release);
    }
    state.PublishDone();
    // The line of the next operation was read by peers a while ago: takes it back meanwhile.
    __builtin_prefetch(&state.self().arrivals[(sequence_ + 1) % kWindow], 1);
    return Result::kDone;
  }

  Result Arrive(NodeState& state);

  // operation.cc: arrival.
  Result Announce(NodeState& state);
  Result Proceed(NodeState& state);

  void UseSlot(NodeState& state) const {
    state.slot_user[slot_] = sequence_;
    state.slot_next = slot_ + 1;
    if (state.slot_next == state.slots_used) {
      state.slot_next = 0;
      state.slot_turned = state.slots_turn && !state.slot_turned;
    }
  }

  void PublishMore(NodeState& state, Arrival& line);
  Result AwaitCredit(NodeState& state, uint64_t sequence);
  void DescribePlaces(NodeState& state, Arrival& line);
  Result Go(NodeState& state);
  Result Break(absl::Status error);
  bool TakeSharedOut(const NodeState& state, int peer, const Arrival& line);
  Result RefuseArrival(const NodeState& state, int peer, const Arrival& line);
  bool AcceptArrivals(NodeState& state);
  Result Move(NodeState& state);
  Result Meet(NodeState& state);

  const Arrival& ArrivalOf(const NodeState& state, int peer) const {
    return state.control(peer).arrivals[sequence_ % kWindow];
  }

  const BufferPlaces& PlacesOf(const NodeState& state, int peer) const {
    return state.control(peer).places[sequence_ % kWindow];
  }

  // operation_one_shot.cc
  void PackInput(NodeState& state, char* to) const;
  void OneShot(NodeState& state);
  void OneShotPlain(NodeState& state);
  void OneShotLaidOut(NodeState& state);

  // operation_combined.cc
  void CountIn(NodeState& state);
  bool MayCombine(const NodeState& state) const;
  void Combine(NodeState& state) const;
  bool HaveMet(const NodeState& state) const;
  Result AwaitMet(const NodeState& state, int peer);
  void TakeCombined(const NodeState& state) const;

  // Of this operation. Two ranks that write where they read last use each other's every other time round.
  char* SlotOf(const NodeState& state, int rank) const {
    return state.segment.slot(slot_turned_ ? state.size - 1 - rank : rank, slot_);
  }

  // What `peer` contributed, packed. The own contribution is read where it is if it lies in one piece and nobody
  // else writes there.
  const char* DataOf(const NodeState& state, int peer) const {
    if (peer == state.rank && call_.layout == nullptr && sharers_ == 0) {
      return static_cast<const char*>(call_.in);
    }
    if (size_ == Size::kSlot) return SlotOf(state, peer);
    if (size_ == Size::kRingSlot) {
      return (peer == state.rank ? state.stage : state.peer_stage[static_cast<size_t>(peer)]) +
             slot_offset_;
    }
    return reinterpret_cast<const char*>(ArrivalOf(state, peer).data);
  }

  // operation_rows.cc
  void WriteRow(const NodeState& state);
  absl::Status ReadRows(const NodeState& state);
  absl::Status OneShotRows(const NodeState& state);
  size_t PeerOffset(const NodeState& state, int peer) const;

  // operation_direct.cc
  bool MayBeDirect(const Arrival& line, int rank) const;
  bool AllDirect(const NodeState& state) const;
  Result Refuse(NodeState& state, std::string_view why);
  Result Direct(NodeState& state);
  Piece DirectPiece(const NodeState& state) const;
  absl::Status DirectReduce(NodeState& state);
  absl::Status DirectCopy(NodeState& state);
  absl::Status CopyBlock(const NodeState& state, int peer, size_t count);
  absl::StatusOr<uint64_t> PeerPlace(const NodeState& state, int peer, bool input, size_t begin,
                                     size_t count) const;
  absl::StatusOr<char*> PeerBuffer(const NodeState& state, int peer, bool input, size_t begin,
                                   size_t count) const;
  Result DirectWait(NodeState& state);

  // operation_shared.cc: results that several ranks get in one place.
  void NoteSharedOut(const NodeState& state);
  void DescribeSharedOut(const NodeState& state, Arrival& line, BufferPlaces& places) const;
  void FindSharers(const NodeState& state);
  Result GoEngaged(NodeState& state);
  Result AwaitWrote(const NodeState& state, int end);
  Result TakeTurns(NodeState& state);
  Result EndShared(NodeState& state);
  Result AwaitWriters(NodeState& state);
  bool WritesFrom(const NodeState& state, int peer) const;

  // Two ranks or more may have the same out.
  bool SeveralShareOut() const { return (shared_outs_ & (shared_outs_ - 1)) != 0; }

  // Every rank's out is the same place.
  bool SharedByAll(const NodeState& state) const {
    return __builtin_popcountll(sharers_) == state.size;
  }

  // operation_single_copy.cc
  bool WantsSingleCopy(const NodeState& state) const;
  bool AllSingleCopy(const NodeState& state) const;
  absl::Status ReadPeer(const NodeState& state, int peer, size_t begin, size_t count, char* to);

  // operation_staged.cc: what all staged operations have in common, and reductions.
  bool FindStages(NodeState& state);
  absl::Status BeginStaged(NodeState& state);
  void StageEarly(NodeState& state, Arrival& line);
  Result Staged(NodeState& state);
  Result AwaitPart(NodeState& state);
  Result AwaitTurnedPart(NodeState& state);
  Result AwaitReaders(NodeState& state, const StageRing::User& last);
  void TakePart(NodeState& state, size_t round);
  Result StageRound(NodeState& state);
  void FillPart(NodeState& state, size_t round);
  void StageIn(NodeState& state, int block, const Piece& piece, char* to) const;
  void CopyToStage(NodeState& state, char* to, const char* from, size_t bytes) const;
  Result ReduceRound(NodeState& state);
  bool ReducePiece(NodeState& state, const Piece& piece);
  Result GatherResults(NodeState& state);
  bool HasStaged(const NodeState& state, int peer) const;
  Result AwaitStaged(NodeState& state);
  Result AwaitAll(NodeState& state, std::atomic<uint32_t> RankControl::*word, uint32_t want);
  Piece PieceOf(size_t round, int owner) const;
  Piece Clip(size_t round, size_t block_count) const;
  size_t LargestBlock(const NodeState& state) const;
  size_t ShareOf(size_t length, size_t ranks) const;
  char* PeerStage(NodeState& state, int peer);
  char* StageOf(NodeState& state, int rank, size_t round);

  size_t PartOffset(size_t round) const { return rounds_.parts[round & 1]; }

  // Where the piece for `owner` lies in a rank's staging of a round, and behind them its own results. Where two ranks
  // write in turn, it is the same place for both: there is only the piece for the other.
  size_t PieceOffset(size_t round, int owner) const {
    return PartOffset(round) +
           (rounds_.turns ? 0 : static_cast<size_t>(owner)) * rounds_.piece_bytes;
  }

  size_t ResultOffset(size_t round) const {
    return PartOffset(round) + rounds_.pieces * rounds_.piece_bytes;
  }

  // What was received, into the output.
  void CopyToOutput(const NodeState& state, int block, size_t begin, size_t count,
                    const char* from) const;

  // operation_staged_copy.cc
  void StageCopies(NodeState& state, size_t round);
  void CopyOwn(const NodeState& state) const;
  Result GatherCopies(NodeState& state);

  // Reduces `count` elements of every rank into the destinations, in group order.
  void RunKernel(NodeState& state, const void* const* sources, void* const* destinations,
                 int destination_count, size_t count) const {
    const ReduceArguments arguments{.sources = sources,
                                    .source_count = state.size,
                                    .destinations = destinations,
                                    .destination_count = destination_count,
                                    .count = count,
                                    .divisor = state.size};
    prepared_.kernel != nullptr ? prepared_.kernel(arguments) : RunCustom(state, arguments);
  }

  // The same of a reduction made at run time.
  void RunCustom(const NodeState& state, ReduceArguments arguments) const;

  const OpTraits& traits() const { return *shape_.traits; }

  // Every rank reduces a slice of one buffer, which others get as well.
  bool Sliced() const { return traits().reduces && !traits().in_blocks; }

  // The block of in that is for `rank`, the block of out that is from `rank`.
  int InBlock(int rank) const { return traits().in_blocks ? rank : 0; }

  int OutBlock(int rank) const { return traits().out_blocks ? rank : 0; }

  const PreparedCall& prepared_;
  const Collective& call_;
  const CallShape& shape_;
  const uint64_t sequence_;
  const uint32_t signature_;
  Size size_ = Size::kInline;
  Phase phase_ = Phase::kArrive;
  bool issued_ = false;
  bool exposed_ = false;
  bool begun_ = false;        // rounds_ is set
  bool in_slots_ = false;     // with local counts: all data came with the arrivals
  uint64_t shared_outs_ = 0;  // bit per rank that has arrived: its out lies in a shared block
  uint64_t sharers_ = 0;      // the ranks whose out is this rank's, if it is not this rank's alone
  const NodePeer* shared_owner_ = nullptr;  // of the block that holds this rank's out
  uint64_t shared_offset_ = 0;
  int odd_rank_ = -1;
  int unread_peer_ = -1;
  uint32_t slot_ = 0;
  bool slot_turned_ = false;
  size_t slot_offset_ = 0;  // in staging
  int next_peer_ = 0;       // of the peers that are waited for one by one
  WaitTarget target_;
  size_t largest_ = 0;  // with local counts: the largest block that any rank sends to another
  Rounds rounds_;
  absl::Status error_;
};

}  // namespace weft

// One collective of one rank on a node, as a state machine.
//
//   Operation operation(call, sequence);
//   operation.Issue(state);                              // publishes the arrival
//   while (operation.Step(state) == Operation::Result::kBlocked) wait for operation.target();
//
// Every operation begins with an arrival of every rank at every rank; the signatures in the arrivals
// are compared then, so that a mismatch is known on all ranks before a byte of a result is written.
// What happens next depends on the operation's size and on what the arrivals say of the buffers:
//   inline, slot   <= 48 B, <= 8 KiB: the data came with the arrival; each rank reduces or copies
//   direct         buffers in symmetric heaps: read from and written to peers' memory
//   single_copy    operations that only copy, private buffers: read from peers' memory by the kernel
//   staged         all others: through the ranks' staging halves, pipelined by two
// Forms in which a rank knows only its own counts put a table of them into the slot, with the data
// behind it when there is room (operation_rows.cc).
// docs/design/003-node.md has the bytes moved and the proof that nothing is overwritten too early.
//
// Thread-safety: none; runs under the group's step word. Never waits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "comm/group/collective.h"
#include "comm/kernels/reduce.h"
#include "comm/node/call_facts.h"
#include "comm/node/node_state.h"

namespace weft {

class Operation {
 public:
  // kRefused: ended with error() on all ranks alike, and the group works on.
  enum class Result { kDone, kBlocked, kFailed, kRefused };

  // `call` outlives the operation.
  Operation(const Collective& call, uint64_t sequence, const NodeState& state)
      : call_(call),
        sequence_(sequence),
        shape_(call, state.rank, state.size),
        signature_(Signature(call)) {}

  // Publishes this rank's arrival, and what it can stage at once; kBlocked while the window or a slot is still in use: by this rank
  // itself only if older operations have not been done, then there is no target(). Operations of a
  // group are issued in order.
  Result Issue(NodeState& state);

  bool issued() const { return issued_; }

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

  const CallShape& shape() const { return shape_; }

  uint64_t sequence() const { return sequence_; }

  // True if peers may have been told where in the heap this rank's buffers are.
  bool exposed() const { return exposed_; }

 private:
  // kAlone: one rank, which makes its result from its own buffers.
  enum class Size : uint8_t { kAlone, kInline, kSlot, kRows, kLarge };
  enum class Phase : uint8_t { kArrive, kDirectWait, kStaged };

  struct Piece {
    size_t begin = 0;  // element within the buffer or block
    size_t count = 0;
  };

  // What a staged operation goes by; set by BeginStaged.
  struct Rounds {
    size_t piece_elements;  // what one owner's piece of a round holds at most
    size_t count;
    size_t staged;   // rounds that this rank has staged
    size_t current;  // round to reduce or gather
    bool reduced;    // the current round has been reduced
    int ranks;
  };

  Result Block(int peer, const std::atomic<uint32_t>& word, uint32_t want);
  Result Fail(absl::Status error);
  Result Finish(NodeState& state);
  Result Arrive(NodeState& state);

  // operation.cc: arrival.
  Size SizeOf(const NodeState& state) const;
  Result AwaitCredit(NodeState& state, uint64_t sequence);
  void DescribePlaces(const NodeState& state, Arrival& line);
  bool CheckArrival(NodeState& state, int peer);
  Result Move(NodeState& state);

  const Arrival& ArrivalOf(const NodeState& state, int peer) const {
    return state.control(peer).arrivals[sequence_ % kWindow];
  }

  // operation_one_shot.cc
  void PackInput(NodeState& state, char* to) const;
  void OneShot(NodeState& state);
  void OneShotPlain(NodeState& state);
  const char* DataOf(const NodeState& state, int peer) const;

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
  absl::StatusOr<char*> PeerBuffer(const NodeState& state, int peer, bool input, size_t begin,
                                   size_t count) const;
  Result DirectWait(NodeState& state);

  // operation_single_copy.cc
  bool WantsSingleCopy(const NodeState& state) const;
  bool AllSingleCopy(const NodeState& state) const;
  absl::Status ReadPeer(const NodeState& state, int peer, size_t begin, size_t count, char* to);

  // operation_staged.cc: what all staged operations have in common, and reductions.
  absl::Status BeginStaged(NodeState& state);
  void StageEarly(NodeState& state, Arrival& line);
  Result Staged(NodeState& state);
  Result AwaitHalf(NodeState& state, size_t round);
  Result StageRound(NodeState& state);
  void FillHalf(NodeState& state, size_t round);
  void StageIn(NodeState& state, int block, const Piece& piece, char* to) const;
  Result ReduceRound(NodeState& state);
  bool ReducePiece(NodeState& state, const Piece& piece);
  Result GatherResults(NodeState& state);
  bool HasStaged(const NodeState& state, int peer) const;
  Result AwaitStaged(NodeState& state);
  Result AwaitAll(NodeState& state, std::atomic<uint32_t> RankControl::*word, uint32_t want);
  Piece PieceOf(size_t round, int owner) const;
  Piece Clip(size_t round, size_t block_count) const;
  size_t LargestBlock(const NodeState& state) const;
  char* PeerStage(NodeState& state, int peer);
  size_t HalfOffset(const NodeState& state, size_t round) const;
  size_t ResultOffset(const NodeState& state, size_t round) const;

  // operation_staged_copy.cc
  void StageCopies(NodeState& state, size_t round, char* half) const;
  void CopyOwn(const NodeState& state) const;
  Result GatherCopies(NodeState& state);

  // Reduces `count` elements of every rank into the destinations, in group order.
  void RunKernel(NodeState& state, const void* const* sources, void* const* destinations,
                 int destination_count, size_t count) const;

  const OpTraits& traits() const { return *shape_.traits; }

  // Every rank reduces a slice of one buffer, which others get as well.
  bool Sliced() const { return traits().reduces && !traits().in_blocks; }

  // The block of in that is for `rank`, the block of out that is from `rank`.
  int InBlock(int rank) const { return traits().in_blocks ? rank : 0; }

  int OutBlock(int rank) const { return traits().out_blocks ? rank : 0; }

  const Collective& call_;
  const uint64_t sequence_;
  const CallShape shape_;
  const uint32_t signature_;
  Size size_ = Size::kInline;
  Phase phase_ = Phase::kArrive;
  bool issued_ = false;
  bool exposed_ = false;
  bool begun_ = false;     // rounds_ is set
  bool in_slots_ = false;  // with local counts: all data came with the arrivals
  int odd_rank_ = -1;
  int unread_peer_ = -1;
  uint32_t slot_ = 0;
  int next_peer_ = 0;  // of the peers that are waited for one by one
  WaitTarget target_;
  size_t largest_ = 0;  // with local counts: the largest block that any rank sends to another
  Rounds rounds_;
  absl::Status error_;
};

}  // namespace weft

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
#include "comm/node/node_state.h"

namespace weft {

// 32 bits of everything that must be the same on all ranks.
uint32_t Signature(const Collective& call);

// UNSUPPORTED if the call asks for an algorithm that its kind or size does not have; known before
// anything is sent, and alike on all ranks.
absl::Status CheckAlgorithm(const Collective& call, const NodeState& state);

// Data that an arrival line can hold for the call.
size_t InlineBytes(const Collective& call);

// What all ranks know of how large a call is: the bytes of the largest contribution.
size_t ContributionBytes(const Collective& call, int size);

class Operation {
 public:
  // kRefused: ended with error() on all ranks alike, and the group works on.
  enum class Result { kDone, kBlocked, kFailed, kRefused };

  Operation(const Collective& call, uint64_t sequence)
      : call_(call), sequence_(sequence), signature_(Signature(call)) {}

  // Publishes this rank's arrival; kBlocked while the window or a slot is still in use: by this rank
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

  const Collective& call() const { return call_; }

  uint64_t sequence() const { return sequence_; }

  // True if peers may have been told where this rank's buffers are.
  bool exposed() const { return exposed_; }

 private:
  enum class Size : uint8_t { kInline, kSlot, kRows, kLarge };
  enum class Phase : uint8_t { kArrive, kDirectWait, kStaged };

  struct Piece {
    size_t begin = 0;  // element within the buffer or block
    size_t count = 0;
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

  // operation_one_shot.cc
  void PackInput(const NodeState& state, char* to) const;
  void OneShot(NodeState& state);
  const char* DataOf(const NodeState& state, int peer) const;

  // operation_rows.cc
  void WriteRow(const NodeState& state);
  absl::Status ReadRows(const NodeState& state);
  absl::Status OneShotRows(const NodeState& state);
  size_t PeerOffset(const NodeState& state, int peer) const;

  // operation_direct.cc
  bool AllDirect(const NodeState& state) const;
  Result Direct(NodeState& state);
  Piece DirectPiece(const NodeState& state) const;
  absl::Status DirectReduce(NodeState& state);
  absl::Status DirectCopy(NodeState& state);
  absl::StatusOr<char*> PeerBuffer(const NodeState& state, int peer, bool input, size_t begin,
                                   size_t count) const;
  Result DirectWait(NodeState& state);

  // operation_staged.cc: what all staged operations have in common, and reductions.
  absl::Status BeginStaged(NodeState& state);
  Result Staged(NodeState& state);
  Result StageRound(NodeState& state);
  Result ReduceRound(NodeState& state);
  bool ReducePiece(NodeState& state, const Piece& piece);
  Result GatherResults(NodeState& state);
  Result AwaitAll(NodeState& state, std::atomic<uint32_t> RankControl::*word, uint32_t want);
  Piece PieceOf(size_t round, int owner) const;
  Piece Clip(size_t round, size_t block_count) const;
  size_t LargestBlock(const NodeState& state) const;
  char* PeerStage(NodeState& state, int peer);
  size_t HalfOffset(const NodeState& state, size_t round) const;
  size_t ResultOffset(const NodeState& state, size_t round) const;

  // operation_staged_copy.cc
  void StageCopies(NodeState& state, size_t round, char* half) const;
  void CopyOwn(NodeState& state) const;
  Result GatherCopies(NodeState& state);

  // Reduces `count` elements of every rank into the destinations, in group order.
  void RunKernel(const NodeState& state, const void* const* sources, void* const* destinations,
                 int destination_count, size_t count) const;

  const OpTraits& traits() const { return TraitsOf(call_.kind); }

  // Every rank reduces a slice of one buffer, which others get as well.
  bool Sliced() const { return traits().reduces && !traits().in_blocks; }

  // The block of in that is for `rank`, the block of out that is from `rank`.
  int InBlock(int rank) const { return traits().in_blocks ? rank : 0; }

  int OutBlock(int rank) const { return traits().out_blocks ? rank : 0; }

  Collective call_;
  uint64_t sequence_;
  uint32_t signature_;
  Size size_ = Size::kInline;
  Phase phase_ = Phase::kArrive;
  bool issued_ = false;
  bool exposed_ = false;
  uint32_t slot_ = 0;
  int next_peer_ = 0;  // of the peers that are waited for one by one
  WaitTarget target_;
  size_t largest_ = 0;     // with local counts: the largest block that any rank sends to another
  bool in_slots_ = false;  // with local counts: all data came with the arrivals
  // Staged only.
  size_t piece_elements_ = 0;  // what one owner's piece of a round holds at most
  size_t rounds_ = 0;
  size_t stage_round_ = 0;  // next round to stage
  size_t round_ = 0;        // round to reduce or gather
  bool reduced_ = false;    // round_ has been reduced
  int ranks_ = 1;
  absl::Status error_;
  int odd_rank_ = -1;
};

}  // namespace weft

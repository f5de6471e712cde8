// The reductions of buckets, under way while backward goes on.
//
//   reduction.Start(0); ... reduction.Start(1);      // under the context's mutex
//   std::vector<StartedReduce> started = reduction.TakeStarted();
//   ... wait for them ...                            // without it
//
// All ranks start buckets in one order, whatever order they became complete in, so the operations of the
// group match. Each extent of a bucket is one operation: an all_reduce in place where the optimizer needs all of
// it, else a reduce_scatter_v, in place where gradients are unsharded at rest, and from the pool to this rank's
// part where they are sharded. Both add in the same order, so an element has the same bits either way.
//
// Where more is to be done than one operation per extent, a bucket is a chain. Chains go on with the inter-replica
// all_reduce in the order in which they were started, and end in any; who ends a link rings the doorbell, and Advance
// starts the next one.
//
// HYBRID_SHARD: sums are made within the replica (reduce_scatter_v), then over the replicas (all_reduce of this
// rank's part), without rounding to 16 bits in between, and divided at the end: a replica of 2^k ranks is a
// subtree of the sum over all ranks, so the bits are those of the other presets. INNER_EVERY_OUTER_LAST adds the
// sums of the replica to the accumulated ones; the last micro-batch adds these to its own and goes on with the
// inter-replica all_reduce.
//
// float32 gradients that are reduced in 16 bits are rounded in place, reduced as any others of 16 bits, and
// widened in place: the result is rounded twice, wherever it rests.
//
// Reductions of other contexts on the group, steps and micro-batches look alike to it; their purpose (purposes.h) tells
// them apart, so that ranks that are not in the same one are told, and add nothing.
//
// Thread-safety: members under the context's mutex.
// Owns no thread: works complete in the group's progress.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "comm/group/process_group.h"
#include "comm/kernels/isa.h"
#include "shard/layout/extent_calls.h"
#include "shard/layout/layout.h"
#include "shard/layout/storage.h"
#include "shard/step/doorbell.h"
#include "shard/step/purposes.h"
#include "shard/step/unshard_manager.h"

namespace weft {

struct StartedReduce {
  WorkRef work;
  int bucket = 0;
  // MonotonicNs of the completion, 0 until then; shared with the work's callback.
  std::shared_ptr<std::atomic<int64_t>> ended_ns;
};

class Reduction {
 public:
  struct Options {
    weft_op_t op = WEFT_AVG;
    int64_t timeout_ns = 0;
    std::shared_ptr<Doorbell> doorbell;  // rung when one has ended; may be nullptr
    Isa isa = Isa::kScalar;
    const Purposes* purposes = nullptr;  // of its calls; outlives this
  };

  // All but the group outlive this.
  Reduction(std::shared_ptr<ProcessGroup> group, const Layout& layout, const Storage& storage,
            const ExtentCalls& calls, UnshardManager& unshard_manager, const Options& options);
  ~Reduction();
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  // INNER_EVERY_OUTER_LAST: whether nothing has been accumulated in this step, and whether the sums of the
  // replicas are complete with this micro-batch. Other ways to accumulate leave both true.
  void BeginMicrobatch(bool first, bool last) {
    first_ = first;
    last_ = last;
  }

  // Starts the reductions of one bucket, whose gradients are unsharded.
  absl::Status Start(int bucket);

  // For HYBRID_SHARD: the ranks of this replica, and those at this rank's place of theirs. Closed in the
  // destructor.
  void SetReplicaGroups(std::shared_ptr<ProcessGroup> scatter,
                        std::shared_ptr<ProcessGroup> inter_replica);
  // Those that there are.
  void ForEachGroup(const std::function<void(ProcessGroup&)>& visit) const;
  // Starts the links of chains whose turn it is, and ends those that are through.
  absl::Status Advance();

  // What to wait for until the bucket's last reduction has ended, and Advance was called; empty if there is nothing.
  Works Left(int bucket) const;

  // What was started since the last call; to be waited for before its memory is used.
  std::vector<StartedReduce> TakeStarted();

  // In the present step: the start of its first operation (0: none yet), and the payload bytes started.
  int64_t first_start_ns() const { return first_start_ns_; }

  uint64_t started_bytes() const { return started_bytes_; }

  // A training step.
  void BeginStep();

 private:
  struct Chain {
    int bucket = 0;
    CallPurpose purpose;
    Works works;                 // of its present link
    bool inter_replica = false;  // another link comes: the inter-replica all_reduce
    bool first = true;           // nothing has been kept
    bool last = true;            // nothing is to be kept
  };

  Collective CallOf(int bucket, size_t i) const;
  absl::Status StartWorks(int bucket, const CallPurpose& purpose,
                          const std::vector<Collective>& calls, ProcessGroup& group, Works* works);
  void CallBack(size_t count);
  // All of these are of extent `i` of the bucket's pack.
  const Extent& ExtentOf(int bucket, size_t i) const;
  // Before the first link.
  void Prepare(int bucket, size_t i) const;
  // What the last link leaves becomes the reduced gradients, or, before the last micro-batch, kept sums.
  void WidenReduced(int bucket, size_t i) const;
  void Divide(int bucket, size_t i) const;
  void KeepSums(int bucket, size_t i, bool first) const;
  void AddKeptSums(int bucket, size_t i) const;
  absl::Status StartInterReplica(Chain& chain);
  void EndChain(const Chain& chain);
  // First byte of an extent's gradients, unsharded, and of what is reduced of them.
  std::byte* WholeOf(int bucket, int extent) const;
  std::byte* ReducedOf(const Extent& extent) const;
  size_t NarrowBefore(const Extent& extent) const;
  // The sums of extent `i` of the bucket's pack: of all of it, or this rank's part.
  std::byte* SumsOf(int bucket, size_t i) const;
  Part OwnSumsOf(int bucket, size_t i) const;

  const std::shared_ptr<ProcessGroup> group_;
  const Layout& layout_;
  const Storage& storage_;
  const ExtentCalls& calls_;
  UnshardManager& unshard_manager_;
  const Options options_;
  std::shared_ptr<ProcessGroup> scatter_;
  std::shared_ptr<ProcessGroup> inter_replica_;
  std::deque<Chain> chains_;
  std::vector<StartedReduce> started_;
  int64_t first_start_ns_ = 0;
  uint64_t started_bytes_ = 0;
  bool first_ = true;
  bool last_ = true;
};

}  // namespace weft

// What a call says of itself before any rank has been met: its size, and whether the protocol that it
// asks for can do it. The same on all ranks.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "comm/group/collective.h"
#include "comm/node/node_state.h"
#include "comm/select/select_protocol.h"

namespace weft {

// ContributionBytes of a call with a layout.
size_t LargestLaidOutBytes(const Collective& call, int size);

// What all ranks know of how large a call is: the bytes of the largest contribution.
inline size_t ContributionBytes(const Collective& call, int size) {
  if (call.kind == OpKind::kBarrier) return 0;
  if (call.layout != nullptr) return LargestLaidOutBytes(call, size);
  return call.count * (TraitsOf(call.kind).in_blocks ? static_cast<size_t>(size) : 1) *
         ElementBytes(call);
}

// What the protocols ask of a call again and again, worked out once.
struct CallShape {
  CallShape() = default;

  CallShape(const Collective& call, int rank, int size)
      : traits(&TraitsOf(call.kind)),
        element_bytes(ElementBytes(call)),
        block_bytes(call.count * element_bytes),
        contribution_bytes(call.layout == nullptr
                               ? block_bytes * (traits->in_blocks ? static_cast<size_t>(size) : 1)
                               : ContributionBytes(call, size)),
        combined_ranks(CombinedRanks(*traits, rank, size)),
        has_input(HasInput(call, rank)),
        has_output(HasOutput(call, rank)) {}

  const OpTraits* traits = nullptr;
  size_t element_bytes = 0;
  size_t block_bytes = 0;         // of a call without a layout
  size_t contribution_bytes = 0;  // as ContributionBytes
  int combined_ranks = 0;         // of a reduction: this rank's result is of ranks 0 to this - 1
  bool has_input = false;         // this rank has one
  bool has_output = false;
};

// True if all ranks get the same result, in one buffer, so that it may be one place for all of them.
inline bool SameForAll(const Collective& call) {
  const OpTraits& traits = TraitsOf(call.kind);
  return !traits.root_out && !traits.in_blocks && !traits.iov && !traits.prefix &&
         call.kind != OpKind::kBarrier;
}

// The call as the choice of its protocol and predictions know it, out of place. With local counts, those of this rank.
CallFacts FactsOf(const Collective& call, int size);

// CheckAlgorithm of a call that names one.
absl::Status CheckNamedAlgorithm(const Collective& call, const NodeState& state);

// UNSUPPORTED if the call asks for an algorithm that its kind or size does not have; known before
// anything is sent.
inline absl::Status CheckAlgorithm(const Collective& call, const NodeState& state) {
  return call.algorithm == Protocol::kAuto ? absl::OkStatus() : CheckNamedAlgorithm(call, state);
}

}  // namespace weft

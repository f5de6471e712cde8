#include "comm/node/call_facts.h"

#include <algorithm>
#include <string>

#include "base/status.h"
#include "fmt/format.h"

namespace weft {

size_t LargestLaidOutBytes(const Collective& call, int size) {
  if (call.kind != OpKind::kAllGatherV) {
    return PackedCount(call, call.root, size) * ElementBytes(call);
  }
  const std::vector<size_t>& counts = call.layout->out_counts;
  return *std::max_element(counts.begin(), counts.end()) * ElementBytes(call);
}

CallFacts FactsOf(const Collective& call, int size) {
  const OpTraits& traits = TraitsOf(call.kind);
  const uint64_t blocks = traits.in_blocks ? static_cast<uint64_t>(size) : 1;
  return {.reduces = traits.reduces,
          .root_in = traits.root_in,
          .root_out = traits.root_out,
          .in_blocks = traits.in_blocks,
          .out_blocks = traits.out_blocks,
          .bytes = ContributionBytes(call, size) / blocks,
          .ranks = size};
}

absl::Status CheckNamedAlgorithm(const Collective& call, const NodeState& state) {
  const OpTraits& traits = TraitsOf(call.kind);
  std::string why;
  switch (call.algorithm) {
    case Algorithm::kInline:
    case Algorithm::kSlot: {
      const bool line = call.algorithm == Algorithm::kInline;
      const size_t limit = line ? InlineBytes(call) : kSlotBytes;
      if (traits.local_counts || ContributionBytes(call, state.size) > limit) {
        why = fmt::format("it holds {} bytes per rank", limit);
      }
      break;
    }
    case Algorithm::kDirect:
      if (traits.iov || call.kind == OpKind::kBarrier) why = "this operation has no direct form";
      break;
    case Algorithm::kStaged:
      if (call.kind == OpKind::kBarrier) why = "a barrier has no data";
      break;
    case Algorithm::kSingleCopy:
      if (traits.reduces || traits.iov || call.kind == OpKind::kBarrier) {
        why = "only operations that copy one buffer have it";
      }
      break;
    case Algorithm::kAuto:
      break;
  }
  if (why.empty()) return absl::OkStatus();
  return MakeError(WEFT_UNSUPPORTED, {.operation = traits.name},
                   fmt::format("{}: algorithm \"{}\": {}; pass NULL to let weft choose",
                               traits.name, AlgorithmName(call.algorithm), why));
}

}  // namespace weft

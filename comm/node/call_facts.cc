#include "comm/node/call_facts.h"

#include <algorithm>

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
  const uint64_t bytes = ContributionBytes(call, size);
  return {.reduces = traits.reduces,
          .root_in = traits.root_in,
          .root_out = traits.root_out,
          .in_blocks = traits.in_blocks,
          .out_blocks = traits.out_blocks,
          .bytes = bytes / blocks,
          .ranks = size,
          .has_data = call.kind != OpKind::kBarrier,
          .laid_out = call.layout != nullptr,
          .lists = traits.iov,
          .local_counts = traits.local_counts,
          .has_factor = traits.reduces && call.op == kOpPremulSum,
          .user_function = traits.reduces && call.op == kOpUser,
          .packed_bytes = bytes,
          .asked = call.algorithm};
}

absl::Status CheckNamedAlgorithm(const Collective& call, const NodeState& state) {
  const CallFacts facts = FactsOf(call, state.size);
  const Obstacle refused = SelectProtocol(facts, state.tuning, Reach{}).refused;
  if (refused == Obstacle::kNone) return absl::OkStatus();
  const char* const name = OpKindName(call.kind);
  return MakeError(
      WEFT_UNSUPPORTED, {.operation = name},
      fmt::format("{}: algorithm \"{}\": {}; pass NULL to let weft choose", name,
                  ProtocolName(call.algorithm), ObstacleText(refused, facts, state.tuning)));
}

}  // namespace weft

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
  CallFacts facts{.reduces = traits.reduces,
                  .root_in = traits.root_in,
                  .root_out = traits.root_out,
                  .in_blocks = traits.in_blocks,
                  .out_blocks = traits.out_blocks,
                  .prefix = traits.prefix,
                  .ranks = size,
                  .has_data = call.kind != OpKind::kBarrier,
                  .laid_out = call.layout != nullptr,
                  .lists = traits.iov,
                  .local_counts = traits.local_counts,
                  .has_factor = traits.reduces && call.op == kOpPremulSum,
                  .user_function = traits.reduces && call.op == kOpUser,
                  .asked = call.algorithm};
  if (traits.local_counts) {
    for (int peer = 0; peer < size; ++peer) {
      const uint64_t bytes = InCount(call, peer) * ElementBytes(call);
      facts.bytes = std::max(facts.bytes, bytes);
      facts.packed_bytes += bytes;
    }
  } else {
    facts.packed_bytes = ContributionBytes(call, size);
    facts.bytes = facts.packed_bytes / (traits.in_blocks ? static_cast<uint64_t>(size) : 1);
  }
  return facts;
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

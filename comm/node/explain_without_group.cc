#include "comm/node/explain_without_group.h"

#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/reduce.h"
#include "comm/node/explain.h"
#include "comm/select/load_model.h"

namespace weft {

absl::StatusOr<std::string> ExplainWithoutGroup(const Collective& call, BufferKind buffers,
                                                int ranks) {
  if (ranks < 1 || ranks > kNodeRanksMax) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat(ranks, " ranks cannot be explained: a node has 1 to ", kNodeRanksMax));
  }
  NodeState state;  // only what ExplainCollective reads: what is constant
  state.size = ranks;
  state.tuning = ProcessTuning(ranks);
  WEFT_ASSIGN_OR_RETURN(state.isa, SelectIsa());
  state.reads_peers = GetOptions().single_copy;
  return ExplainCollective(call, buffers, state);
}

}  // namespace weft

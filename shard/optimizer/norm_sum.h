// The norm of a model whose parts lie on different ranks: each part's norm, added over a group.
//
//   WEFT_ASSIGN_OR_RETURN(const weft_shard_norm_t whole, SumNorms(group, part));
//
// Thread-safety: a collective call; as the group's.
#pragma once

#include "weft/shard_norm.h"

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"

namespace weft {

// The norm of all ranks' parts, with the same bits on each of them. INVALID_ARGUMENT if `part` is
// no norm, and nothing was sent; MISMATCH on all ranks if the gradients of one have another loss
// scale. Collective.
absl::StatusOr<weft_shard_norm_t> SumNorms(ProcessGroup& group, const weft_shard_norm_t& part);

}  // namespace weft

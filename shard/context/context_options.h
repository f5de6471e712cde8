// What the caller decides of a context before anything is declared: buckets, overlap, prefetch, memory.
//
// Thread-safety: a value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/shard.h"

#include "shard/layout/block.h"
#include "shard/layout/layout.h"
#include "shard/layout/storage.h"
#include "shard/offload/offload_to_file.h"

namespace weft {

struct ContextOptions {
  BucketLimits limits;
  weft_shard_accumulation_t accumulation = WEFT_SHARD_LOCAL_THEN_REDUCE;
  bool overlap = true;
  bool average = true;
  int64_t timeout_ns = 0;   // of each collective; 0: the group's
  int prefetch = 1;         // units gathered ahead
  size_t budget_bytes = 0;  // of what is gathered; 0: none
  int microbatches = 1;     // that the plan expects
  bool uneven = false;      // ranks may run out of data before others
  weft_shard_views_t views = WEFT_SHARD_VIEWS_MOVE;
  BlockSource memory;
  OffloadOptions offload;
  // Training steps after which copies are compared; 0: never.
  int64_t verify_steps = 0;

  bool reduces_every() const { return accumulation != WEFT_SHARD_LOCAL_THEN_REDUCE; }

  // The reduction keeps the sums of replicated spaces until the last micro-batch.
  bool keeps_sums() const { return accumulation == WEFT_SHARD_INNER_EVERY_OUTER_LAST; }

  Accumulate accumulate() const {
    if (keeps_sums()) return Accumulate::kSumsOfReplicas;
    return reduces_every() ? Accumulate::kReduced : Accumulate::kNothing;
  }
};

}  // namespace weft

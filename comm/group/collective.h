// One call of a collective, as a value: what every rank must agree on, and what is local.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/types.h"

namespace weft {

enum class OpKind : uint8_t {
  kBarrier = 0,
  kAllReduce = 1,
  kReduce = 2,
  kBroadcast = 3,
  kAllGather = 4,
  kReduceScatter = 5,
};
constexpr int kOpKindCount = 6;

// "all_reduce"; "unknown" for an unknown number.
const char* OpKindName(OpKind kind);

struct Collective {
  // The same on all ranks; the signature is made from these.
  OpKind kind = OpKind::kBarrier;
  weft_dtype_t dtype = WEFT_UINT8;
  weft_op_t op = WEFT_SUM;
  int32_t root = 0;
  size_t count = 0;  // as in weft/collective.h: per rank for all_gather and reduce_scatter
  // Local.
  const void* in = nullptr;
  void* out = nullptr;
  int64_t timeout_ns = 0;  // 0: the group's
  int32_t priority = 0;
  uint64_t tag = 0;
};

// Bytes that `in` and `out` span in a group of `size` ranks.
size_t InputBytes(const Collective& collective, int size);
size_t OutputBytes(const Collective& collective, int size);

}  // namespace weft

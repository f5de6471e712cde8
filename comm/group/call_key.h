// Recognising a call that was made before: a collective on one input and one output with the usual options, but
// for its buffers, in three words.
//
//   const CallKey key = MakeCallKey(OpKind::kAllReduce, dtype, op, 0, count);
//   if (group.TryRunCached(key, in, out, &failure)) return WEFT_SUCCESS;
//   const Collective collective = CollectiveOf(key, in, out);   // to be checked, then group.Run(collective)
//
// Nothing in it has been checked: any number may stand where the caller gave one.
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/types.h"

#include "comm/group/collective.h"

namespace weft {

// What two calls have in common that differ in their buffers only. No two calls share a key: every number of
// the caller's has 32 bits of its own.
struct CallKey {
  uint64_t kind_root = 0;
  uint64_t dtype_op = 0;
  size_t count = 0;

  friend bool operator==(const CallKey&, const CallKey&) = default;
};

inline CallKey MakeCallKey(OpKind kind, weft_dtype_t dtype, weft_op_t op, int root, size_t count) {
  const auto low = [](auto number) {
    return uint64_t{static_cast<uint32_t>(number)};
  };
  return {.kind_root = low(kind) | low(root) << 32,
          .dtype_op = low(dtype) | low(op) << 32,
          .count = count};
}

// What a call may say beside its key that changes nothing about how it is prepared. As in Collective; all of it is this
// rank's own.
struct CallExtras {
  int64_t timeout_ns = 0;
  uint64_t tag = 0;
  int32_t priority = 0;
  bool background = false;
};

// True if its key, extras and buffers are all that `call` says.
inline bool IsPlain(const Collective& call) {
  return call.layout == nullptr && call.custom == nullptr && call.algorithm == Protocol::kAuto &&
         call.numerics == WEFT_NUMERICS_CANONICAL && call.purpose.signature_salt == 0;
}

inline CallKey KeyOf(const Collective& call) {
  return MakeCallKey(call.kind, call.dtype, call.op, call.root, call.count);
}

inline Collective CollectiveOf(const CallKey& key, const void* in, void* out) {
  return {.kind = static_cast<OpKind>(key.kind_root),
          .dtype = static_cast<weft_dtype_t>(key.dtype_op & UINT32_MAX),
          .op = static_cast<weft_op_t>(key.dtype_op >> 32),
          .root = static_cast<int32_t>(key.kind_root >> 32),
          .count = key.count,
          .in = in,
          .out = out};
}

}  // namespace weft

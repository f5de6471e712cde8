#include "comm/group/collective.h"

#include <cstdint>

#include "absl/status/status.h"
#include "base/status.h"
#include "comm/group/process_group.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "fmt/format.h"

namespace weft {
namespace {

bool Reduces(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduce || kind == OpKind::kReduceScatter;
}

bool HasRoot(OpKind kind) {
  return kind == OpKind::kReduce || kind == OpKind::kBroadcast;
}

absl::Status Invalid(const Collective& call, std::string_view what) {
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = OpKindName(call.kind)},
                   fmt::format("{}: {}", OpKindName(call.kind), what));
}

// True if the byte ranges share a byte. Ranges may be empty.
bool Overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a);
  const auto b_begin = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
}

// The one allowed overlap of each collective; weft/collective.h states it.
bool InPlace(const Collective& call, int rank) {
  const auto in = reinterpret_cast<uintptr_t>(call.in);
  const auto out = reinterpret_cast<uintptr_t>(call.out);
  const size_t block = static_cast<size_t>(rank) * call.count * DtypeSize(call.dtype);
  if (call.kind == OpKind::kAllGather) return in == out + block;
  if (call.kind == OpKind::kReduceScatter) return out == in + block;
  return in == out;
}

}  // namespace

const char* OpKindName(OpKind kind) {
  switch (kind) {
    case OpKind::kBarrier:
      return "barrier";
    case OpKind::kAllReduce:
      return "all_reduce";
    case OpKind::kReduce:
      return "reduce";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kAllGather:
      return "all_gather";
    case OpKind::kReduceScatter:
      return "reduce_scatter";
  }
  return "unknown";
}

size_t InputBytes(const Collective& call, int size) {
  const size_t bytes = call.count * DtypeSize(call.dtype);
  return call.kind == OpKind::kReduceScatter ? bytes * static_cast<size_t>(size) : bytes;
}

size_t OutputBytes(const Collective& call, int size) {
  const size_t bytes = call.count * DtypeSize(call.dtype);
  return call.kind == OpKind::kAllGather ? bytes * static_cast<size_t>(size) : bytes;
}

absl::Status CheckCollective(const Collective& call, int rank, int size) {
  if (call.kind == OpKind::kBarrier) return absl::OkStatus();
  if (DtypeSize(call.dtype) == 0) {
    return Invalid(call, fmt::format("{} is not a data type", static_cast<int>(call.dtype)));
  }
  if (Reduces(call.kind)) {
    if (call.op < WEFT_SUM || call.op > WEFT_AVG) {
      return Invalid(call, fmt::format("{} is not a reduction", static_cast<int>(call.op)));
    }
    if (FindReduceKernel(Isa::kScalar, call.dtype, call.op) == nullptr) {
      return MakeError(WEFT_UNSUPPORTED, {.operation = OpKindName(call.kind)},
                       fmt::format("{}: {} of {} is not supported; convert to bfloat16 or float32",
                                   OpKindName(call.kind), OpName(call.op), DtypeName(call.dtype)));
    }
  }
  if (HasRoot(call.kind) && (call.root < 0 || call.root >= size)) {
    return Invalid(call, fmt::format("root {} is not one of the ranks 0..{}", call.root, size - 1));
  }
  size_t total = 0;
  if (__builtin_mul_overflow(call.count, DtypeSize(call.dtype), &total) ||
      __builtin_mul_overflow(total, static_cast<size_t>(size), &total) || total > PTRDIFF_MAX) {
    return Invalid(call, fmt::format("{} elements of {} on {} ranks do not fit in memory",
                                     call.count, DtypeName(call.dtype), size));
  }
  if (call.count == 0) return absl::OkStatus();
  const bool root = !HasRoot(call.kind) || call.root == rank;
  const bool needs_in = call.kind != OpKind::kBroadcast || root;
  const bool needs_out = call.kind != OpKind::kReduce || root;
  if (needs_in && call.in == nullptr) return Invalid(call, "in is NULL");
  if (needs_out && call.out == nullptr) return Invalid(call, "out is NULL");
  if (needs_in && needs_out && !InPlace(call, rank) &&
      Overlap(call.in, InputBytes(call, size), call.out, OutputBytes(call, size))) {
    return Invalid(call, "in and out overlap without being in place; use one buffer or two");
  }
  return absl::OkStatus();
}

}  // namespace weft

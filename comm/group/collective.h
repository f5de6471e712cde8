// One call of a collective, as a value: what every rank must agree on, and what is local.
//
//   Collective call{.kind = OpKind::kAllGather, .dtype = WEFT_FLOAT32, .count = n, .in = x, .out = y};
//   WEFT_RETURN_IF_ERROR(CheckCollective(call, rank, size));   // comm/group/process_group.h
//
// Thread-safety: values. A BlockLayout is not changed once a Collective has it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "weft/iov.h"
#include "weft/types.h"

#include "absl/status/status.h"
#include "comm/group/purpose.h"
#include "comm/kernels/custom_op.h"
#include "comm/kernels/dtype.h"
#include "comm/select/protocol.h"

namespace weft {

// Numbers stand in flight-recorder files: never reused.
enum class OpKind : uint8_t {
  kBarrier = 0,
  kAllReduce = 1,
  kReduce = 2,
  kBroadcast = 3,
  kAllGather = 4,
  kReduceScatter = 5,
  kGather = 6,
  kScatter = 7,
  kAllToAll = 8,
  kAllGatherV = 9,
  kReduceScatterV = 10,
  kGatherV = 11,
  kScatterV = 12,
  kAllToAllV = 13,
  kAllReduceIov = 14,
  kAllGatherIov = 15,
  kReduceScatterIov = 16,
  kScan = 17,
  kExscan = 18,
};
constexpr int kOpKindCount = 19;

// What a kind does, from which every protocol is derived.
struct OpTraits {
  const char* name;
  bool reduces;       // combines the ranks' elements
  bool root_in;       // only the root contributes
  bool root_out;      // only the root gets a result
  bool in_blocks;     // in has one block per rank, for that rank
  bool out_blocks;    // out has one block per rank, from that rank
  bool local_counts;  // ranks know only what they themselves send and receive
  bool iov;           // in and out are lists of buffers
  bool prefix;        // a rank's result combines the ranks up to it
  bool exclusive;     // but not its own elements, so that rank 0 has no result
};

inline constexpr OpTraits kOpTraits[kOpKindCount] = {
    {.name = "barrier"},
    {.name = "all_reduce", .reduces = true},
    {.name = "reduce", .reduces = true, .root_out = true},
    {.name = "broadcast", .root_in = true},
    {.name = "all_gather", .out_blocks = true},
    {.name = "reduce_scatter", .reduces = true, .in_blocks = true},
    {.name = "gather", .root_out = true, .out_blocks = true},
    {.name = "scatter", .root_in = true, .in_blocks = true},
    {.name = "all_to_all", .in_blocks = true, .out_blocks = true},
    {.name = "all_gather_v", .out_blocks = true},
    {.name = "reduce_scatter_v", .reduces = true, .in_blocks = true},
    {.name = "gather_v", .in_blocks = true, .out_blocks = true, .local_counts = true},
    {.name = "scatter_v", .in_blocks = true, .out_blocks = true, .local_counts = true},
    {.name = "all_to_all_v", .in_blocks = true, .out_blocks = true, .local_counts = true},
    {.name = "all_reduce_iov", .reduces = true, .iov = true},
    {.name = "all_gather_iov", .out_blocks = true, .iov = true},
    {.name = "reduce_scatter_iov", .reduces = true, .in_blocks = true, .iov = true},
    {.name = "scan", .reduces = true, .prefix = true},
    {.name = "exscan", .reduces = true, .prefix = true, .exclusive = true},
};

// For a known kind.
inline const OpTraits& TraitsOf(OpKind kind) {
  return kOpTraits[static_cast<size_t>(kind)];
}

// "all_reduce"; "unknown" for an unknown number.
const char* OpKindName(OpKind kind);
// The kind of that name.
std::optional<OpKind> FindOpKind(std::string_view name);
// What the user has called: "all_reduce"; "split" of a part of one, by the record of its purpose.
const char* CallName(OpKind kind, uint64_t purpose_record);
// True if the call names a root.
bool HasRoot(OpKind kind);

// True if calls of the kind have a layout: several counts, or lists of buffers.
inline bool HasLayout(OpKind kind) {
  return kind >= OpKind::kAllGatherV && kind <= OpKind::kReduceScatterIov;
}

// Counts and places of the forms that have more than one count. In elements.
struct BlockLayout {
  // Vector forms, one entry per block.
  std::vector<size_t> in_counts;
  std::vector<size_t> in_offsets;
  std::vector<size_t> out_counts;
  std::vector<size_t> out_offsets;
  // iov forms; starts[i] is the sum of the counts before part i, and one more for the total.
  std::vector<weft_iov_t> parts;
  std::vector<size_t> starts;
  uint64_t hash = 0;  // of what all ranks must agree on
};

struct Collective {
  // The same on all ranks; the signature is made from these.
  OpKind kind = OpKind::kBarrier;
  weft_dtype_t dtype = WEFT_UINT8;
  weft_op_t op = WEFT_SUM;
  int32_t root = 0;
  // As in weft/collective.h: per rank for those with blocks. The total of the counts for the other
  // forms; with local_counts that is this rank's own, and not part of the signature. Like all counts
  // and offsets here it is of elements, where callers count values (CountElements in block_layout.h).
  size_t count = 0;
  Protocol algorithm = Protocol::kAuto;  // that the caller asks for
  weft_numerics_t numerics = WEFT_NUMERICS_CANONICAL;
  std::shared_ptr<const BlockLayout> layout;  // vector and iov forms only
  std::shared_ptr<const CustomOp> custom;     // of kOpPremulSum and kOpUser only
  CallPurpose purpose;                        // tells calls apart that otherwise look alike
  // Local.
  bool strict_algorithm = false;  // `algorithm`, or the call is UNSUPPORTED
  const void* in = nullptr;
  void* out = nullptr;
  int64_t timeout_ns = 0;  // 0: the group's
  int32_t priority = 0;
  uint64_t tag = 0;
  // Started, it is left to the progress thread at once, if there is one: its caller has other things to do and
  // will not wait for it soon. Else the start goes as far as it can.
  bool background = false;
};

// INVALID_ARGUMENT: "all_reduce: " and what is wrong with the call.
absl::Status InvalidCall(const Collective& call, std::string_view what);

// Values of the type in one element of the call: one, unless a user's reduction says otherwise.
inline size_t ValuesPerElement(const Collective& call) {
  return call.custom == nullptr ? 1 : call.custom->element_count;
}

// Bytes of one element of the call, whose numbers have been checked.
inline size_t ElementBytes(const Collective& call) {
  if (!TraitsOf(call.kind).reduces) return DtypeSize(call.dtype);
  return ElementBytes(call.dtype, call.op) * ValuesPerElement(call);
}

// Elements that a side spans whose counts and offsets the layout has.
size_t LaidOutExtent(const std::vector<size_t>& counts, const std::vector<size_t>& offsets);

// Bytes that `in` and `out` span in a group of `size` ranks, from their first byte on; 0 for iov forms.
inline size_t InputBytes(const Collective& call, int size) {
  const OpTraits& traits = TraitsOf(call.kind);
  if (traits.iov) return 0;
  if (call.layout != nullptr && !call.layout->in_counts.empty()) {
    return LaidOutExtent(call.layout->in_counts, call.layout->in_offsets) * ElementBytes(call);
  }
  return call.count * (traits.in_blocks ? static_cast<size_t>(size) : 1) * ElementBytes(call);
}

inline size_t OutputBytes(const Collective& call, int size) {
  const OpTraits& traits = TraitsOf(call.kind);
  if (traits.iov) return 0;
  if (call.layout != nullptr && !call.layout->out_counts.empty()) {
    return LaidOutExtent(call.layout->out_counts, call.layout->out_offsets) * ElementBytes(call);
  }
  return call.count * (traits.out_blocks ? static_cast<size_t>(size) : 1) * ElementBytes(call);
}

// True if `rank` contributes elements, or gets a result.
inline bool HasInput(const Collective& call, int rank) {
  return !TraitsOf(call.kind).root_in || call.root == rank;
}

inline bool HasOutput(const Collective& call, int rank) {
  const OpTraits& traits = TraitsOf(call.kind);
  return (!traits.root_out || call.root == rank) && (!traits.exclusive || rank != 0);
}

// How many ranks, from rank 0 on, the result of `rank` combines; of a kind that reduces.
inline int CombinedRanks(const OpTraits& traits, int rank, int size) {
  if (!traits.prefix) return size;
  return traits.exclusive ? rank : rank + 1;
}

// Elements of block `block` of in and out; of the only block (0) on a side that has no blocks.
inline size_t InCount(const Collective& call, int block) {
  const bool counted = call.layout != nullptr && !call.layout->in_counts.empty();
  return counted ? call.layout->in_counts[static_cast<size_t>(block)] : call.count;
}

inline size_t OutCount(const Collective& call, int block) {
  const bool counted = call.layout != nullptr && !call.layout->out_counts.empty();
  return counted ? call.layout->out_counts[static_cast<size_t>(block)] : call.count;
}

// Elements from the first byte of in to the start of one of its blocks; OutOffset is the same for out. Not for iov forms.
inline size_t InOffset(const Collective& call, int block) {
  const bool counted = call.layout != nullptr && !call.layout->in_counts.empty();
  if (counted) return call.layout->in_offsets[static_cast<size_t>(block)];
  return TraitsOf(call.kind).in_blocks ? static_cast<size_t>(block) * call.count : 0;
}

inline size_t OutOffset(const Collective& call, int block) {
  const bool counted = call.layout != nullptr && !call.layout->out_counts.empty();
  if (counted) return call.layout->out_offsets[static_cast<size_t>(block)];
  return TraitsOf(call.kind).out_blocks ? static_cast<size_t>(block) * call.count : 0;
}

// Elements that `rank` contributes, its blocks packed one behind the other, and how many of them stand
// before block `block`. Not with local_counts.
size_t PackedCount(const Collective& call, int rank, int size);
size_t PackedOffset(const Collective& call, int block);

// Elements that lie side by side in memory.
struct Span {
  char* memory;
  size_t count;
};

// The elements from `begin` (below the block's count) on of a block of in or out: as many as lie side by
// side, at most `limit`.
Span InSpan(const Collective& call, int block, size_t begin, size_t limit);
Span OutSpan(const Collective& call, int block, size_t begin, size_t limit);

// Copies elements [begin, begin + count) of a block to or from contiguous memory that may be the same.
void CopyIn(const Collective& call, int block, size_t begin, size_t count, void* to);
void CopyOut(const Collective& call, int block, size_t begin, size_t count, const void* from);

}  // namespace weft

// What weft_perf measures, under the names that nccl-tests gives it on its command line and in its table: operations,
// element types, reductions. How a size becomes counts, where an in-place buffer stands, what counts as bandwidth, and
// how far memory itself would let an operation go. Pure arithmetic.
#ifndef WEFT_BENCH_WEFT_PERF_OPERATION_H_
#define WEFT_BENCH_WEFT_PERF_OPERATION_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "weft/types.h"

namespace weft::perf {

class Traffic;

enum class OperationKind {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kAllToAllV,
  kGather,
  kScatter,
  kSendRecv,
  kHyperCube,
  kBarrier,
  kScan,
  kExscan,
};

// How the command line's bytes become a rank's input and output.
enum class Layout {
  kNone,      // nothing is moved
  kWhole,     // input and output have the size
  kCollects,  // the output has one chunk for each rank, the input one chunk
  kDeals,     // the input has one chunk for each rank, the output one chunk
  kSwaps,     // input and output have one chunk for each rank
  kTraffic,   // as traffic.h says
};

struct Operation {
  OperationKind kind;
  const char* name;   // "all_reduce"
  const char* title;  // "AllReduce", nccl-tests' experiment name
  Layout layout;
  bool reduces;           // has a redop
  bool rooted;            // has a root
  bool checked_in_place;  // nccl-tests prints N/A for some
  bool same_result;       // every rank ends with the same output

  // "all_reduce_perf", the program of nccl-tests.
  std::string perf_name() const { return std::string(name) + "_perf"; }

  // Whether the call can work in place: messages cannot, nor can blocks of unequal sizes.
  bool has_in_place() const {
    return kind != OperationKind::kSendRecv && kind != OperationKind::kAllToAllV;
  }

  // nccl-tests runs sendrecv once for each reduction, and names it in the table.
  bool lists_reductions() const { return reduces || kind == OperationKind::kSendRecv; }

  bool is_barrier() const { return kind == OperationKind::kBarrier; }

  // The result is the same for all ranks, so that they may have it in one place.
  bool may_share_result() const {
    return kind == OperationKind::kAllReduce || kind == OperationKind::kAllGather ||
           kind == OperationKind::kBroadcast;
  }
};

std::span<const Operation> Operations();
// The names of all, with blanks between them.
std::string OperationNames();

// By name or by perf_name; nullptr when there is none.
const Operation* FindOperation(std::string_view name);

enum class Format { kSigned, kUnsigned, kFloat };

struct ElementType {
  const char* name;
  weft_dtype_t dtype;
  size_t size;
  Format format;
  int exponent_bits;  // of floating formats
  int mantissa_bits;  // stored ones; the leading one is not counted
};

struct Reduction {
  const char* name;
  weft_op_t op;  // of mulsum WEFT_OP_CUSTOM_FIRST: the number that is used is made at run time
};

// In the order of `-d all` and `-o all`.
std::span<const ElementType> ElementTypes();
std::span<const Reduction> Reductions();

// nullptr when there is none of that name.
const ElementType* FindElementType(std::string_view name);
const Reduction* FindReduction(std::string_view name);

// Sum of factor x input; the factor is PremulFactor(rank).
inline bool IsPremulSum(const Reduction& reduction) {
  return reduction.op == WEFT_OP_CUSTOM_FIRST;
}

// What nccl-tests multiplies a rank's input by: 1 on even ranks, 2 on odd ones.
inline int PremulFactor(size_t rank) {
  return rank % 2 == 0 ? 1 : 2;
}

// Elements, except the offsets and sizes that say bytes.
struct Extent {
  size_t send_count = 0;  // alltoallv: the largest of all ranks
  size_t recv_count = 0;
  size_t count = 0;               // what the call gets and the table prints
  size_t send_in_place_step = 0;  // in place, a rank's input starts at rank x this
  size_t recv_in_place_step = 0;  // and its output at rank x this
  size_t send_bytes = 0;
  size_t recv_bytes = 0;

  // The table's size column, and how far buffers rotate.
  size_t bytes() const { return send_bytes > recv_bytes ? send_bytes : recv_bytes; }
};

// What `bytes` of the command line become. Chunks are rounded down to 16 bytes, so a small size
// may become 0. `traffic` is alltoallv's, nullptr for others.
Extent ExtentOf(const Operation& operation, size_t bytes, size_t element_size, size_t ranks,
                const Traffic* traffic = nullptr);

struct Bandwidth {
  double algorithm = 0;  // GB/s, 1e9
  double bus = 0;
};

// How much more than the algorithm's bandwidth crosses the busiest link, seen as a ring.
double BusFactor(OperationKind kind, size_t ranks);

// 0 for an operation that moves nothing.
Bandwidth BandwidthOf(const Operation& operation, const Extent& extent, size_t element_size,
                      size_t ranks, double seconds);

// How far memory lets an operation go (--bound): the best bus bandwidth divided by the rate at which all ranks together
// copy memory. An operation on one node must read and write every byte a certain number of times, and a copy does each
// once, so with `a` accesses per byte of S it takes at least a S / (2 rate). 0 where there is no such bound (one rank,
// barrier). A share of it can be compared between machines, bandwidth cannot.
double BoundFraction(OperationKind kind, size_t ranks, bool symmetric, bool in_place);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_OPERATION_H_

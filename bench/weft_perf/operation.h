// The operations that weft_perf measures: how nccl-tests cuts a size into counts, where an in-
// place buffer stands, and what counts as bandwidth. Pure arithmetic.
#ifndef WEFT_BENCH_WEFT_PERF_OPERATION_H_
#define WEFT_BENCH_WEFT_PERF_OPERATION_H_

#include <cstddef>
#include <span>
#include <string_view>

namespace weft::perf {

enum class OperationKind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kBarrier };

struct Operation {
  OperationKind kind;
  const char* name;       // "all_reduce"
  const char* perf_name;  // "all_reduce_perf", the program of nccl-tests
  const char* title;      // "AllReduce", nccl-tests' experiment name
  bool reduces;           // has a redop
  bool rooted;            // has a root
  bool chunked;           // every rank owns one of `ranks` equal chunks
};

std::span<const Operation> Operations();

// By name or by perf_name; nullptr when there is none.
const Operation* FindOperation(std::string_view name);

// Elements, except the offsets and sizes that say bytes.
struct Extent {
  size_t send_count = 0;
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
// may become 0.
Extent ExtentOf(const Operation& operation, size_t bytes, size_t element_size, int ranks);

struct Bandwidth {
  double algorithm = 0;  // GB/s, 1e9
  double bus = 0;
};

// 0 for an operation that moves nothing.
Bandwidth BandwidthOf(const Operation& operation, const Extent& extent, size_t element_size,
                      int ranks, double seconds);

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_OPERATION_H_

#include "bench/weft_perf/operation.h"

#include <array>

namespace weft::perf {
namespace {

constexpr std::array kOperations = {
    Operation{OperationKind::kAllReduce, "all_reduce", "all_reduce_perf", "AllReduce", true, false,
              false},
    Operation{OperationKind::kReduce, "reduce", "reduce_perf", "Reduce", true, true, false},
    Operation{OperationKind::kBroadcast, "broadcast", "broadcast_perf", "Broadcast", false, true,
              false},
    Operation{OperationKind::kAllGather, "all_gather", "all_gather_perf", "AllGather", false, false,
              true},
    Operation{OperationKind::kReduceScatter, "reduce_scatter", "reduce_scatter_perf",
              "ReduceScatter", true, false, true},
    Operation{OperationKind::kBarrier, "barrier", "barrier_perf", "Barrier", false, false, false},
};

constexpr size_t kChunkAlignment = 16;

// How much more than the payload crosses the busiest link, seen as a ring.
double BusFactor(OperationKind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case OperationKind::kAllReduce:
      return 2 * (n - 1) / n;
    case OperationKind::kAllGather:
    case OperationKind::kReduceScatter:
      return (n - 1) / n;
    case OperationKind::kReduce:
    case OperationKind::kBroadcast:
    case OperationKind::kBarrier:
      break;
  }
  return 1;
}

}  // namespace

std::span<const Operation> Operations() {
  return kOperations;
}

const Operation* FindOperation(std::string_view name) {
  for (const Operation& operation : kOperations) {
    if (name == operation.name || name == operation.perf_name) return &operation;
  }
  return nullptr;
}

Extent ExtentOf(const Operation& operation, size_t bytes, size_t element_size, int ranks) {
  Extent extent;
  if (operation.kind == OperationKind::kBarrier) return extent;
  const size_t total = bytes / element_size;
  const auto n = static_cast<size_t>(ranks);
  extent.count = total;
  extent.send_count = total;
  extent.recv_count = total;
  if (operation.chunked) {
    extent.count = (total / n) & ~(kChunkAlignment / element_size - 1);
    extent.send_count = extent.count;
    extent.recv_count = extent.count;
    if (operation.kind == OperationKind::kAllGather) {
      extent.recv_count *= n;
      extent.send_in_place_step = extent.count;
    } else {
      extent.send_count *= n;
      extent.recv_in_place_step = extent.count;
    }
  }
  extent.send_bytes = extent.send_count * element_size;
  extent.recv_bytes = extent.recv_count * element_size;
  return extent;
}

Bandwidth BandwidthOf(const Operation& operation, const Extent& extent, size_t element_size,
                      int ranks, double seconds) {
  if (seconds <= 0) return {};
  const double chunks = operation.chunked ? ranks : 1;
  const double bytes = static_cast<double>(extent.count * element_size) * chunks;
  const double algorithm = bytes / 1e9 / seconds;
  return {algorithm, algorithm * BusFactor(operation.kind, ranks)};
}

}  // namespace weft::perf

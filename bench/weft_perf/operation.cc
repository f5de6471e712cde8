// Names, roundings and bus factors are those of nccl-tests, so that tables compare line by line, and are not to be improved.
// Accesses() is weft's own: how often memory must be touched at least, which is a bound and no estimate.
#include "bench/weft_perf/operation.h"

#include <array>

#include "bench/weft_perf/traffic.h"

namespace weft::perf {
namespace {

constexpr std::array kOperations = [] {
  using enum OperationKind;
  using enum Layout;
  return std::to_array<Operation>({
      // kind, name, title, layout, reduces, rooted, checked in place, same result
      {kAllReduce, "all_reduce", "AllReduce", kWhole, true, false, true, true},
      {kReduce, "reduce", "Reduce", kWhole, true, true, true, false},
      {kBroadcast, "broadcast", "Broadcast", kWhole, false, true, true, true},
      {kAllGather, "all_gather", "AllGather", kCollects, false, false, true, true},
      {kReduceScatter, "reduce_scatter", "ReduceScatter", kDeals, true, false, true, false},
      {kAllToAll, "alltoall", "AlltoAll", kSwaps, false, false, false, false},
      {kAllToAllV, "alltoallv", "AlltoAllv", kTraffic, false, false, false, false},
      {kGather, "gather", "Gather", kCollects, false, true, true, false},
      {kScatter, "scatter", "Scatter", kDeals, false, true, true, false},
      {kSendRecv, "sendrecv", "SendRecv", kWhole, false, false, false, false},
      {kHyperCube, "hypercube", "HyperCube", kCollects, false, false, true, true},
      {kBarrier, "barrier", "Barrier", kNone, false, false, false, false},
      {kScan, "scan", "Scan", kWhole, true, false, true, false},
      {kExscan, "exscan", "Exscan", kWhole, true, false, true, false},
  });
}();

constexpr std::array kElementTypes = {
    ElementType{"int8", WEFT_INT8, 1, Format::kSigned, 0, 0},
    ElementType{"uint8", WEFT_UINT8, 1, Format::kUnsigned, 0, 0},
    ElementType{"int32", WEFT_INT32, 4, Format::kSigned, 0, 0},
    ElementType{"uint32", WEFT_UINT32, 4, Format::kUnsigned, 0, 0},
    ElementType{"int64", WEFT_INT64, 8, Format::kSigned, 0, 0},
    ElementType{"uint64", WEFT_UINT64, 8, Format::kUnsigned, 0, 0},
    ElementType{"half", WEFT_FLOAT16, 2, Format::kFloat, 5, 10},
    ElementType{"float", WEFT_FLOAT32, 4, Format::kFloat, 8, 23},
    ElementType{"double", WEFT_FLOAT64, 8, Format::kFloat, 11, 52},
    ElementType{"bfloat16", WEFT_BFLOAT16, 2, Format::kFloat, 8, 7},
    ElementType{"f8e4m3", WEFT_FLOAT8_E4M3, 1, Format::kFloat, 4, 3},
    ElementType{"f8e5m2", WEFT_FLOAT8_E5M2, 1, Format::kFloat, 5, 2},
};

constexpr std::array kReductions = {
    Reduction{"sum", WEFT_SUM}, Reduction{"prod", WEFT_PROD},
    Reduction{"max", WEFT_MAX}, Reduction{"min", WEFT_MIN},
    Reduction{"avg", WEFT_AVG}, Reduction{"mulsum", WEFT_OP_CUSTOM_FIRST},
};

template <typename Entry>
const Entry* FindByName(std::span<const Entry> entries, std::string_view name) {
  for (const Entry& entry : entries) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

constexpr size_t kChunkAlignment = 16;

size_t ChunkOf(size_t total, size_t element_size, size_t ranks) {
  return (total / ranks) & ~(kChunkAlignment / element_size - 1);
}

void SetTraffic(const Traffic& traffic, size_t element_size, size_t ranks, Extent* extent) {
  // A matrix has its own sizes; nccl-tests then prints a count of 0.
  if (traffic.from_matrix()) extent->count = 0;
  const size_t total = extent->count * ranks * element_size;
  const Traffic::Amount largest = traffic.LargestOf(ranks, total);
  extent->send_count = largest.send_bytes / element_size;
  extent->recv_count = largest.recv_bytes / element_size;
}

// Memory accesses per byte of the table's size, over all ranks. Private memory: each rank must
// read its own input and write its own output, and everything between goes through shared memory
// once in and once out. Symmetric: each input is read once and each output written once, by
// whoever it suits.
double Accesses(OperationKind kind, double n, bool symmetric, bool in_place) {
  switch (kind) {
    case OperationKind::kAllReduce:
      return symmetric ? 2 * n : 5 * n - 2;
    case OperationKind::kReduce:
    case OperationKind::kReduceScatter:
      return symmetric ? n + 1 : 3 * n - 1;
    case OperationKind::kScan:
    case OperationKind::kExscan:  // the last rank's input, and the first one's output, are nobody's
      return (symmetric ? 2 * n : 4 * n - 2) - (kind == OperationKind::kExscan ? 2 : 0);
    case OperationKind::kAllGather:
      return (symmetric ? n : 2 * n) + (in_place ? 0 : 1);
    case OperationKind::kBroadcast:
      return symmetric ? n : 2 * n;
    case OperationKind::kGather:
    case OperationKind::kScatter:
      return ((symmetric ? 2 : 4) * (n - 1) + (in_place ? 0 : 2)) / n;
    case OperationKind::kAllToAll:
    case OperationKind::kHyperCube:
      return (symmetric ? 2 : 4) * (n - 1) + (in_place ? 0 : 2);
    case OperationKind::kSendRecv:
      return (symmetric ? 2 : 4) * n;
    case OperationKind::kAllToAllV:  // depends on who sends what
    case OperationKind::kBarrier:
      break;
  }
  return 0;
}

// The bus bandwidth of a table's size that is moved in one second.
double BusShare(OperationKind kind, size_t ranks) {
  const double n = ranks;
  return kind == OperationKind::kHyperCube ? (n - 1) / n : BusFactor(kind, ranks);
}

}  // namespace

double BusFactor(OperationKind kind, size_t ranks) {
  const double n = ranks;
  switch (kind) {
    case OperationKind::kAllReduce:
      return 2 * (n - 1) / n;
    case OperationKind::kAllGather:
    case OperationKind::kReduceScatter:
    case OperationKind::kAllToAll:
    case OperationKind::kAllToAllV:
    case OperationKind::kGather:
    case OperationKind::kScatter:
      return (n - 1) / n;
    case OperationKind::kReduce:
    case OperationKind::kBroadcast:
    case OperationKind::kSendRecv:
    case OperationKind::kHyperCube:
    case OperationKind::kBarrier:
    case OperationKind::kScan:
    case OperationKind::kExscan:
      break;
  }
  return 1;
}

std::span<const Operation> Operations() {
  return kOperations;
}

std::string OperationNames() {
  std::string names;
  for (const Operation& operation : kOperations) {
    if (!names.empty()) names += ' ';
    names += operation.name;
  }
  return names;
}

const Operation* FindOperation(std::string_view name) {
  for (const Operation& operation : kOperations) {
    if (name == operation.name || name == operation.perf_name()) return &operation;
  }
  return nullptr;
}

std::span<const ElementType> ElementTypes() {
  return kElementTypes;
}

std::span<const Reduction> Reductions() {
  return kReductions;
}

const ElementType* FindElementType(std::string_view name) {
  return FindByName(ElementTypes(), name);
}

const Reduction* FindReduction(std::string_view name) {
  return FindByName(Reductions(), name);
}

Extent ExtentOf(const Operation& operation, size_t bytes, size_t element_size, size_t ranks,
                const Traffic* traffic) {
  Extent extent;
  const size_t total = bytes / element_size;
  const size_t chunk = ChunkOf(total, element_size, ranks);
  switch (operation.layout) {
    case Layout::kNone:
      return extent;
    case Layout::kWhole:
      extent.count = extent.send_count = extent.recv_count = total;
      break;
    case Layout::kCollects:
      extent.count = extent.send_count = extent.send_in_place_step = chunk;
      extent.recv_count = chunk * ranks;
      break;
    case Layout::kDeals:
      extent.count = extent.recv_count = extent.recv_in_place_step = chunk;
      extent.send_count = chunk * ranks;
      break;
    case Layout::kSwaps:
      extent.count = chunk;
      extent.send_count = extent.recv_count = chunk * ranks;
      break;
    case Layout::kTraffic:
      extent.count = chunk;
      SetTraffic(*traffic, element_size, ranks, &extent);
      break;
  }
  extent.send_bytes = extent.send_count * element_size;
  extent.recv_bytes = extent.recv_count * element_size;
  return extent;
}

Bandwidth BandwidthOf(const Operation& operation, const Extent& extent, size_t element_size,
                      size_t ranks, double seconds) {
  if (seconds <= 0) return {};
  double bytes = extent.bytes();
  if (operation.kind == OperationKind::kHyperCube) {
    // A rank's own chunk does not travel.
    bytes = extent.count * element_size * (ranks - 1.0);
  }
  const double algorithm = bytes / 1e9 / seconds;
  return {algorithm, algorithm * BusFactor(operation.kind, ranks)};
}

double BoundFraction(OperationKind kind, size_t ranks, bool symmetric, bool in_place) {
  const double accesses = Accesses(kind, ranks, symmetric, in_place);
  if (accesses == 0 || ranks < 2) return 0;
  return BusShare(kind, ranks) * 2 / accesses;
}

}  // namespace weft::perf

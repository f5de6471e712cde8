#include "bench/weft_perf/bound.h"

namespace weft::perf {
namespace {

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
double BusShare(OperationKind kind, int ranks) {
  const double n = ranks;
  return kind == OperationKind::kHyperCube ? (n - 1) / n : BusFactor(kind, ranks);
}

std::string Share(const Cell& cell, double limit) {
  if (limit <= 0) return Printf("  %8s  %7s", "-", "-");
  return Printf("  %8.2f  %6.1f%%", limit, cell.bandwidth.bus / limit * 100);
}

}  // namespace

double BoundFraction(OperationKind kind, int ranks, bool symmetric, bool in_place) {
  const double accesses = Accesses(kind, ranks, symmetric, in_place);
  if (accesses == 0 || ranks < 2) return 0;
  return BusShare(kind, ranks) * 2 / accesses;
}

std::string BoundHeader() {
  return Printf(
      "#\n# bound: best bus bandwidth that the measured copy rate of all ranks allows\n"
      "# bound %12s  %8s  %8s  %7s  %8s  %7s\n# bound %12s  %8s  %8s  %7s  %8s  %7s\n",
      "size", "memcpy", "out-of-p", "reached", "in-place", "reached", "(B)", "(GB/s)", "(GB/s)", "",
      "(GB/s)", "");
}

std::string BoundLine(const Row& row, const Operation& operation, int ranks, bool symmetric,
                      double copy_rate) {
  std::string text = Printf("# bound %12zu  %8.2f", row.bytes, copy_rate);
  text += Share(row.out_of_place,
                copy_rate * BoundFraction(operation.kind, ranks, symmetric, /*in_place=*/false));
  text += Share(row.in_place,
                copy_rate * BoundFraction(operation.kind, ranks, symmetric, /*in_place=*/true));
  return text + "\n";
}

}  // namespace weft::perf

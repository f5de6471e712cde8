// How fast the reduction kernels move bytes, next to memcpy in the same program.
//
//   build/release/bench/reduce_bench --benchmark_filter='avx512/bfloat16/sum/2 to 1/'
//
// A case reduces 2, 4 or 8 sources of a size into one or two destinations: (sources + destinations) x
// size bytes of traffic. The counter of_memcpy is that traffic per second over memcpy's (2 x size a copy)
// on the same buffers, immediately before and after the case: on a shared machine the ratio is steadier
// than either rate.
//
// Sums of floats also by stages (comm/kernels/reduce_stage.h), where the size is that of the larger buffers:
//
//   build/release/bench/reduce_bench --benchmark_filter='avx512/bfloat16/sum (first|last)/8 to 1/'
//
// "along merges": the same tree, but spelled out by ReduceArguments::merges.

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "weft/types.h"

#include "bench/micro/blocks.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "comm/kernels/reduce_stage.h"
#include "comm/schedule/tree_pieces.h"

namespace weft {
namespace {

// 1.0 for each source.
constexpr uint64_t kFactors[] = {0x3f800000, 0x3f800000, 0x3f800000, 0x3f800000,
                                 0x3f800000, 0x3f800000, 0x3f800000, 0x3f800000};

struct Case {
  Isa isa;
  weft_dtype_t dtype;
  weft_op_t op;
  int source_count;
  int destination_count;
  size_t bytes;
  ReduceStage stage = ReduceStage::kWhole;
  bool along_merges = false;
};

const char* StageText(const Case& of) {
  if (of.stage == ReduceStage::kFirst) return " first";
  if (of.stage == ReduceStage::kMiddle) return of.along_merges ? " middle along merges" : " middle";
  if (of.stage == ReduceStage::kLast) return of.along_merges ? " last along merges" : " last";
  return "";
}

std::string NameOf(const Case& of) {
  return std::string(IsaName(of.isa)) + "/" + DtypeName(of.dtype) + "/" + OpName(of.op) +
         StageText(of) + "/" + std::to_string(of.source_count) + " to " +
         std::to_string(of.destination_count) + "/" + std::to_string(of.bytes / 1024) + " KiB";
}

void ReduceBlocks(benchmark::State& state, const Case& of) {
  const int block_count = of.source_count + of.destination_count;
  const Blocks blocks(block_count, of.bytes);
  const ReduceKernel kernel = FindReduceKernel(of.isa, of.dtype, of.op);
  const ReduceArguments arguments{blocks.sources(),
                                  of.source_count,
                                  blocks.destinations(of.source_count),
                                  of.destination_count,
                                  of.bytes / ElementBytes(of.dtype, of.op),
                                  of.op == WEFT_AVG ? of.source_count : 0,
                                  kFactors};
  MeasurePasses(state, blocks, block_count, of.bytes, static_cast<double>(of.bytes) * block_count,
                [&] { kernel(arguments); });
}

// The canonical tree as merges.
std::vector<uint8_t> CanonicalMerges(int source_count) {
  std::vector<int> islands(static_cast<size_t>(source_count));
  std::iota(islands.begin(), islands.end(), 0);
  return PiecesOf(islands).merges;
}

void ReduceStages(benchmark::State& state, const Case& of) {
  const weft_dtype_t accumulator = AccumulatorDtype(of.dtype, of.op);
  const bool first = of.stage == ReduceStage::kFirst;
  const bool last = of.stage == ReduceStage::kLast;
  const size_t source_bytes = DtypeSize(first ? of.dtype : accumulator);
  const size_t result_bytes = DtypeSize(last ? of.dtype : accumulator);
  const size_t count = of.bytes / std::max(source_bytes, result_bytes);
  const int block_count = of.source_count + of.destination_count;
  const Blocks blocks(block_count, of.bytes);
  const ReduceKernel kernel = FindReduceKernel(of.isa, of.dtype, of.op, of.stage);
  const std::vector<uint8_t> merges = CanonicalMerges(of.source_count);
  const ReduceArguments arguments{blocks.sources(),
                                  of.source_count,
                                  blocks.destinations(of.source_count),
                                  of.destination_count,
                                  count,
                                  of.op == WEFT_AVG ? of.source_count : 0,
                                  kFactors,
                                  of.along_merges ? merges.data() : nullptr};
  const size_t moved = count * (source_bytes * static_cast<size_t>(of.source_count) +
                                result_bytes * static_cast<size_t>(of.destination_count));
  MeasurePasses(state, blocks, block_count, of.bytes, static_cast<double>(moved),
                [&] { kernel(arguments); });
}

constexpr size_t kKib[] = {4, 64, 1024, 16384};

void RegisterSizes(Isa isa, weft_dtype_t dtype, weft_op_t op) {
  for (const int sources : {2, 4, 8}) {
    for (const int destinations : {1, 2}) {
      for (const size_t kib : kKib) {
        const Case made{isa, dtype, op, sources, destinations, kib * 1024};
        benchmark::RegisterBenchmark(NameOf(made).c_str(), ReduceBlocks, made);
      }
    }
  }
}

void RegisterStage(Isa isa, weft_dtype_t dtype, ReduceStage stage, bool along_merges) {
  for (const int sources : {1, 2, 3, 4, 5, 8}) {
    for (const size_t kib : kKib) {
      const Case made{isa, dtype, WEFT_SUM, sources, 1, kib * 1024, stage, along_merges};
      benchmark::RegisterBenchmark(NameOf(made).c_str(), ReduceStages, made);
    }
  }
}

void RegisterStages(Isa isa, weft_dtype_t dtype) {
  RegisterStage(isa, dtype, ReduceStage::kFirst, false);
  for (const bool along_merges : {false, true}) {
    RegisterStage(isa, dtype, ReduceStage::kMiddle, along_merges);
    RegisterStage(isa, dtype, ReduceStage::kLast, along_merges);
  }
}

void RegisterCases() {
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > BestIsa()) continue;
    for (const weft_dtype_t dtype : kDtypes) {
      for (const weft_op_t op : kReductionOps) {
        if (HasReduction(dtype, op)) RegisterSizes(isa, dtype, op);
      }
      if (HasReduction(dtype, kOpPremulSum)) RegisterSizes(isa, dtype, kOpPremulSum);
      if (IsFloatingDtype(dtype)) RegisterStages(isa, dtype);
    }
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::RegisterCases();
  return weft::RunCases(argc, argv);
}

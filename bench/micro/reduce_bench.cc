// How fast the reduction kernels move bytes, next to memcpy in the same program.
//
//   build/release/bench/reduce_bench --benchmark_filter='avx512/bfloat16/sum/2 to 1/'
//
// A case reduces 2, 4 or 8 sources of a size into one or two destinations: (sources + destinations) x
// size bytes of traffic. The counter of_memcpy is that traffic per second over memcpy's (2 x size a copy)
// on the same buffers, immediately before and after the case: on a shared machine the ratio is steadier
// than either rate.

#include <string>

#include <benchmark/benchmark.h>

#include "weft/types.h"

#include "bench/micro/blocks.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"

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
};

std::string NameOf(const Case& of) {
  return std::string(IsaName(of.isa)) + "/" + DtypeName(of.dtype) + "/" + OpName(of.op) + "/" +
         std::to_string(of.source_count) + " to " + std::to_string(of.destination_count) + "/" +
         std::to_string(of.bytes / 1024) + " KiB";
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

void RegisterSizes(Isa isa, weft_dtype_t dtype, weft_op_t op) {
  for (const int sources : {2, 4, 8}) {
    for (const int destinations : {1, 2}) {
      for (const size_t kib : {4, 64, 1024, 16384}) {
        const Case made{isa, dtype, op, sources, destinations, kib * 1024};
        benchmark::RegisterBenchmark(NameOf(made).c_str(), ReduceBlocks, made);
      }
    }
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
    }
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::RegisterCases();
  return weft::RunCases(argc, argv);
}

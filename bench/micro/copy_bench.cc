// How fast bytes are copied, by memcpy and past the caches.
//
//   build/release/bench/copy_bench --benchmark_filter=KiB
//
// One core by itself: where the destination's lines are in no other core's cache, streaming cannot win
// what it is for (comm/kernels/copy.h), so this says what it costs. The counter of_memcpy is the bytes
// read and written per second over memcpy's on the same buffers, immediately before and after the case.

#include <cstring>
#include <string>

#include <benchmark/benchmark.h>

#include "bench/micro/blocks.h"
#include "comm/kernels/copy.h"

namespace weft {
namespace {

void Memcpy(void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}

void CopyBlock(benchmark::State& state, CopyKernel copy, size_t bytes) {
  const Blocks blocks(2, bytes);
  MeasurePasses(state, blocks, 2, bytes, 2.0 * static_cast<double>(bytes),
                [&] { copy(blocks[1], blocks[0], bytes); });
}

void RegisterSizes(const std::string& name, CopyKernel copy) {
  for (const size_t kib : {4, 64, 1024, 16384}) {
    benchmark::RegisterBenchmark((name + "/" + std::to_string(kib) + " KiB").c_str(), CopyBlock,
                                 copy, kib * 1024);
  }
}

void RegisterCases() {
  RegisterSizes("memcpy", Memcpy);
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= BestIsa()) RegisterSizes(std::string("stream/") + IsaName(isa), FindStreamCopy(isa));
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::RegisterCases();
  return weft::RunCases(argc, argv);
}

// How fast the kernels move bytes, next to memcpy in the same program.
//
//   build/release/bench/reduce_bench --benchmark_filter=avx512/bfloat16/sum
//
// A case reduces 2, 4 or 8 sources of `bytes` into one destination: (sources + 1) x bytes of traffic.
// The counter memcpy_share is that traffic per second over memcpy's (2 x bytes a copy), measured
// on the same buffers immediately before and after the case, the better of the two: on a shared
// machine the ratio is steadier than either rate.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "weft/types.h"

#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"

namespace weft {
namespace {

constexpr size_t kAlignment = 4096;

// Page-aligned blocks with touched pages and harmless numbers (1.0 in either type's high bits).
class Blocks {
 public:
  Blocks(int count, size_t bytes) {
    for (int i = 0; i < count; ++i) {
      storage_.push_back(std::make_unique<char[]>(bytes + kAlignment));
      void* block = storage_.back().get();
      size_t space = bytes + kAlignment;
      blocks_.push_back(std::align(kAlignment, bytes, block, space));
      std::memset(block, 0x3f, bytes);
    }
  }

  void* operator[](int i) const { return blocks_[i]; }

  const void* const* sources() const { return blocks_.data(); }

 private:
  std::vector<std::unique_ptr<char[]>> storage_;
  std::vector<void*> blocks_;
};

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Bytes read and written per second by memcpy from each block to the next, so that the copies go
// through the same memory as the reductions do: the best of several samples.
double MemcpyRate(const Blocks& blocks, int block_count, size_t bytes) {
  constexpr int kSamples = 5;
  const int copies = std::max(1, block_count - 1);
  const int repeats = static_cast<int>(std::max<size_t>(1, (size_t{4} << 20) / bytes / copies));
  double best_seconds = 1e9;
  for (int sample = 0; sample < kSamples; ++sample) {
    const auto start = std::chrono::steady_clock::now();
    for (int repeat = 0; repeat < repeats; ++repeat) {
      for (int i = 0; i < copies; ++i)
        std::memcpy(blocks[i + 1], blocks[i], bytes);
      benchmark::ClobberMemory();
    }
    best_seconds = std::min(best_seconds, SecondsSince(start) / repeats / copies);
  }
  return 2.0 * static_cast<double>(bytes) / best_seconds;
}

// One kernel of each family, and what training sums.
struct Reduction {
  weft_dtype_t dtype;
  weft_op_t op;
};

constexpr Reduction kReductions[] = {
    {WEFT_FLOAT32, WEFT_SUM},         {WEFT_BFLOAT16, WEFT_SUM},    {WEFT_FLOAT8_E4M3, WEFT_SUM},
    {WEFT_FLOAT8_E5M2, WEFT_SUM},     {WEFT_FLOAT8_E4M3, WEFT_MAX}, {WEFT_BOOL, WEFT_SUM},
    {WEFT_INT64, WEFT_BIT_OR},        {WEFT_FLOAT32, kOpPremulSum}, {WEFT_BFLOAT16, kOpPremulSum},
    {WEFT_FLOAT8_E4M3, kOpPremulSum}, {WEFT_FLOAT32, WEFT_MAX_LOC},
};

// 1.0 for each source.
constexpr uint64_t kFactors[] = {0x3f800000, 0x3f800000, 0x3f800000, 0x3f800000,
                                 0x3f800000, 0x3f800000, 0x3f800000, 0x3f800000};

void ReduceBlocks(benchmark::State& state, Isa isa, Reduction reduction, int source_count,
                  size_t bytes) {
  const Blocks blocks(source_count + 1, bytes);
  void* const destination = blocks[source_count];
  const ReduceKernel kernel = FindReduceKernel(isa, reduction.dtype, reduction.op);
  const ReduceArguments arguments{blocks.sources(),
                                  source_count,
                                  &destination,
                                  1,
                                  bytes / ElementBytes(reduction.dtype, reduction.op),
                                  0,
                                  kFactors};
  double memcpy_rate = MemcpyRate(blocks, source_count + 1, bytes);
  const auto start = std::chrono::steady_clock::now();
  while (state.KeepRunning()) {
    kernel(arguments);
    benchmark::ClobberMemory();
  }
  const double seconds = SecondsSince(start);
  memcpy_rate = std::max(memcpy_rate, MemcpyRate(blocks, source_count + 1, bytes));
  const double moved =
      static_cast<double>(state.iterations()) * static_cast<double>(bytes) * (source_count + 1);
  state.counters["GB/s"] = moved / seconds * 1e-9;
  state.counters["memcpy_GB/s"] = memcpy_rate * 1e-9;
  state.counters["memcpy_share"] = moved / seconds / memcpy_rate;
}

void RegisterCases() {
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > BestIsa()) continue;
    for (const Reduction& reduction : kReductions) {
      for (const int sources : {2, 4, 8}) {
        for (const size_t kib : {16, 256, 8192}) {
          const std::string name = std::string(IsaName(isa)) + "/" + DtypeName(reduction.dtype) +
                                   "/" + OpName(reduction.op) + "/" + std::to_string(sources) +
                                   " sources/" + std::to_string(kib) + " KiB";
          benchmark::RegisterBenchmark(name.c_str(), ReduceBlocks, isa, reduction, sources,
                                       kib * 1024);
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::RegisterCases();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

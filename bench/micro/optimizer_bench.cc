// How fast the optimizers and the sum of squares move bytes, next to plain loops over the same arrays.
//
//   build/release/bench/optimizer_bench --benchmark_filter='avx512/adamw'
//
// A case alternates with its plain loop, pass by pass, so that both see the same machine. For optimizers that
// is a stream which reads weights, both moments and gradients and writes the first three, one
// multiplication and addition each; for the sum of squares one that reads. The counter of_stream is bytes
// per second over the stream's: what is left of the memory's speed.

#include <cstdint>
#include <iterator>
#include <string>

#include <benchmark/benchmark.h>

#include "weft/types.h"

#include "bench/micro/blocks.h"
#include "comm/kernels/dtype.h"
#include "shard/optimizer_kernels.h"
#include "shard/sum_squares.h"

#if defined(__x86_64__)
#define WEFT_EVERY_ISA [[gnu::target_clones("default", "avx2", "avx512f")]]
#else
#define WEFT_EVERY_ISA
#endif

namespace weft {
namespace {

enum class Which : uint8_t { kAdamW, kSgd, kLion, kLambMoments, kLambApply, kLars };

constexpr const char* kNames[] = {"adamw", "sgd", "lion", "lamb_moments", "lamb_apply", "lars"};

struct Case {
  Isa isa;
  Which which;
  weft_dtype_t gradients;
  bool casts;    // to bfloat16
  size_t bytes;  // of the weights
};

// Four reads and three writes.
WEFT_EVERY_ISA void Stream(float* __restrict weights, float* __restrict first,
                           float* __restrict second, const float* __restrict gradients,
                           size_t count) {
  for (size_t i = 0; i < count; ++i) {
    weights[i] = weights[i] * 0.5f + gradients[i];
    first[i] = first[i] * 0.5f + gradients[i];
    second[i] = second[i] * 0.5f + gradients[i];
  }
}

WEFT_EVERY_ISA uint64_t ReadAll(const uint64_t* from, size_t count) {
  uint64_t all = 0;
  for (size_t i = 0; i < count; ++i)
    all |= from[i];
  return all;
}

// Seconds of the thread that a call takes.
template <typename Call>
double SecondsOf(Call call) {
  const double start = ThreadSeconds();
  call();
  benchmark::ClobberMemory();
  return ThreadSeconds() - start;
}

// Alternates both calls, each moving so many bytes.
template <typename Call, typename Baseline>
void Compare(benchmark::State& state, double bytes, Call call, double baseline_bytes,
             Baseline baseline) {
  double seconds = 0;
  double baseline_seconds = 0;
  call();
  while (state.KeepRunning()) {
    const double pass = SecondsOf(call);
    state.SetIterationTime(pass);
    seconds += pass;
    baseline_seconds += SecondsOf(baseline);
  }
  const auto passes = static_cast<double>(state.iterations());
  const double rate = bytes * passes / seconds;
  const double baseline_rate = baseline_bytes * passes / baseline_seconds;
  state.counters["GB/s"] = rate * 1e-9;
  state.counters["stream_GB/s"] = baseline_rate * 1e-9;
  state.counters["of_stream"] = rate / baseline_rate;
}

// Bytes that an element's update reads and writes.
double BytesPerElement(const Case& of) {
  constexpr int kFloats[] = {6, 4, 4, 5, 4, 4};  // but for the gradient
  const bool reads_gradients = of.which != Which::kLambApply;
  const bool writes_casts = of.casts && of.which != Which::kLambMoments;
  return 4.0 * kFloats[static_cast<size_t>(of.which)] +
         (reads_gradients ? static_cast<double>(DtypeSize(of.gradients)) : 0) +
         (writes_casts ? 2 : 0);
}

void Update(const Case& of, const OptimizerArrays& arrays) {
  const LambStep lamb = MakeLambStep({.learning_rate = 1e-6}, 10, 0.5);
  switch (of.which) {
    case Which::kAdamW:
      return UpdateAdamW(of.isa, MakeAdamWStep({.learning_rate = 1e-6}, 10, 0.5), arrays);
    case Which::kSgd:
      return UpdateSgd(of.isa, MakeSgdStep({.learning_rate = 1e-6, .momentum = 0.9}, 0.5), arrays);
    case Which::kLion:
      return UpdateLion(of.isa, MakeLionStep({.learning_rate = 1e-6}, 0.5), arrays);
    case Which::kLambMoments: {
      LambSums sums;
      return UpdateLambMoments(of.isa, lamb, arrays, 0, sums);
    }
    case Which::kLambApply:
      return ApplyLamb(of.isa, lamb, 1, arrays);
    case Which::kLars:
      return UpdateLars(of.isa, MakeLarsStep({.learning_rate = 1e-6}, 0.5), 1, arrays);
  }
}

void MeasureUpdate(benchmark::State& state, const Case& of) {
  const Blocks blocks(5, of.bytes);
  const size_t count = of.bytes / sizeof(float);
  const OptimizerArrays arrays = {.weights = static_cast<float*>(blocks[0]),
                                  .first_moment = static_cast<float*>(blocks[1]),
                                  .second_moment = static_cast<float*>(blocks[2]),
                                  .gradients = blocks[3],
                                  .gradient_dtype = of.gradients,
                                  .cast = of.casts ? blocks[4] : nullptr,
                                  .count = count};
  const auto elements = static_cast<double>(count);
  Compare(
      state, BytesPerElement(of) * elements, [&] { Update(of, arrays); }, 28 * elements,
      [&] {
        Stream(arrays.weights, arrays.first_moment, arrays.second_moment,
               static_cast<const float*>(blocks[3]), count);
      });
}

void MeasureSquares(benchmark::State& state, const Case& of) {
  const Blocks blocks(1, of.bytes);
  const auto moved = static_cast<double>(of.bytes);
  const size_t count = of.bytes / DtypeSize(of.gradients);
  double sum_of_values = 0;
  uint64_t all = 0;
  Compare(
      state, moved,
      [&] {
        ExactSum sum;
        AddSquares(of.isa, of.gradients, blocks[0], count, 0, sum);
        sum_of_values += sum.Value();
      },
      moved, [&] { all |= ReadAll(static_cast<const uint64_t*>(blocks[0]), of.bytes / 8); });
  benchmark::DoNotOptimize(sum_of_values);
  benchmark::DoNotOptimize(all);
}

std::string NameOf(const Case& of, const char* what) {
  return std::string(IsaName(of.isa)) + "/" + what + "/" + DtypeName(of.gradients) +
         (of.casts ? " to bfloat16/" : "/") + std::to_string(of.bytes / 1024) + " KiB";
}

void RegisterCases() {
  for (const size_t bytes : {size_t{64} << 20, size_t{256} << 10, size_t{64} << 10}) {
    for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
      if (isa > BestIsa()) continue;
      for (const weft_dtype_t dtype : {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16}) {
        const Case squares = {isa, Which::kAdamW, dtype, false, bytes};
        benchmark::RegisterBenchmark(NameOf(squares, "sum_squares").c_str(), MeasureSquares,
                                     squares)
            ->UseManualTime();
        for (size_t which = 0; which < std::size(kNames); ++which) {
          for (const bool casts : {false, true}) {
            const Case of = {isa, static_cast<Which>(which), dtype, casts, bytes};
            benchmark::RegisterBenchmark(NameOf(of, kNames[which]).c_str(), MeasureUpdate, of)
                ->UseManualTime();
          }
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

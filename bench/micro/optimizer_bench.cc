// How fast the optimizers and the sum of squares move bytes, next to plain loops over the same arrays.
//
//   build/release/bench/optimizer_bench --benchmark_filter='avx512/adamw'
//
// A case alternates with its plain loop, pass by pass, so that both see the same machine. For optimizers that
// is a stream which reads weights, both moments and gradients and writes the first three, one
// multiplication and addition each; for the sum of squares one that reads. The counter of_stream is bytes
// per second over the stream's: what is left of the memory's speed.
//
// --threads=N: both are shared by so many threads, in the pieces and by the team of a context's optimizer. Time is then
// the clock's; with one thread it is the processor's, which other programs take nothing of.

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "weft/types.h"

#include "base/wait.h"
#include "bench/micro/blocks.h"
#include "comm/kernels/dtype.h"
#include "fmt/format.h"
#include "shard/optimizer/optimizer_kernels.h"
#include "shard/optimizer/piece.h"
#include "shard/optimizer/sum_squares.h"
#include "shard/optimizer/thread_team.h"

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
  ThreadTeam* team;
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

// Calls share(piece, member) for the pieces of `count` elements.
template <typename Share>
void ForEachPiece(ThreadTeam& team, size_t count, Share share) {
  team.ForEach(PieceCount(0, count),
               [&](size_t index, int member) { share(PieceOf(0, count, index), member); });
}

// Seconds that a call takes: of the thread, or of the clock if there are several.
template <typename Call>
double SecondsOf(const ThreadTeam& team, Call call) {
  const auto now = [&] {
    return team.size() == 1 ? ThreadSeconds() : 1e-9 * static_cast<double>(MonotonicNs());
  };
  const double start = now();
  call();
  benchmark::ClobberMemory();
  return now() - start;
}

// Alternates both calls, each moving so many bytes.
template <typename Call, typename Baseline>
void Compare(benchmark::State& state, const ThreadTeam& team, double bytes, Call call,
             double baseline_bytes, Baseline baseline) {
  double seconds = 0;
  double baseline_seconds = 0;
  call();
  while (state.KeepRunning()) {
    const double pass = SecondsOf(team, call);
    state.SetIterationTime(pass);
    seconds += pass;
    baseline_seconds += SecondsOf(team, baseline);
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

void UpdatePiece(const Case& of, const OptimizerArrays& arrays) {
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

OptimizerArrays PartOf(OptimizerArrays arrays, const Piece& piece) {
  arrays.weights += piece.begin;
  arrays.first_moment += piece.begin;
  arrays.second_moment += piece.begin;
  arrays.gradients =
      static_cast<const char*>(arrays.gradients) + piece.begin * DtypeSize(arrays.gradient_dtype);
  if (arrays.cast != nullptr)
    arrays.cast = static_cast<char*>(arrays.cast) + piece.begin * DtypeSize(arrays.cast_dtype);
  arrays.count = piece.count;
  return arrays;
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
      state, *of.team, BytesPerElement(of) * elements,
      [&] {
        ForEachPiece(*of.team, count,
                     [&](const Piece& piece, int) { UpdatePiece(of, PartOf(arrays, piece)); });
      },
      28 * elements,
      [&] {
        ForEachPiece(*of.team, count, [&](const Piece& piece, int) {
          Stream(arrays.weights + piece.begin, arrays.first_moment + piece.begin,
                 arrays.second_moment + piece.begin,
                 static_cast<const float*>(blocks[3]) + piece.begin, piece.count);
        });
      });
}

void MeasureSquares(benchmark::State& state, const Case& of) {
  const Blocks blocks(1, of.bytes);
  const auto moved = static_cast<double>(of.bytes);
  const size_t count = of.bytes / DtypeSize(of.gradients);
  const auto* const bytes = static_cast<const char*>(blocks[0]);
  const size_t element_bytes = DtypeSize(of.gradients);

  // By member, a page apart.
  struct alignas(4096) Own {
    ExactSum sum;
    uint64_t all = 0;
  };

  std::vector<Own> own(static_cast<size_t>(of.team->size()));
  Compare(
      state, *of.team, moved,
      [&] {
        ForEachPiece(*of.team, count, [&](const Piece& piece, int member) {
          AddSquares(of.isa, of.gradients, bytes + piece.begin * element_bytes, piece.count,
                     piece.begin, own[static_cast<size_t>(member)].sum);
        });
      },
      moved,
      [&] {
        ForEachPiece(*of.team, count, [&](const Piece& piece, int member) {
          own[static_cast<size_t>(member)].all |=
              ReadAll(reinterpret_cast<const uint64_t*>(bytes + piece.begin * element_bytes),
                      piece.count * element_bytes / sizeof(uint64_t));
        });
      });
  for (const Own& of_member : own)
    benchmark::DoNotOptimize(of_member.sum.Value() + static_cast<double>(of_member.all));
}

std::string NameOf(const Case& of, const char* what) {
  return fmt::format("{}/{}/{}{}/{} KiB{}", IsaName(of.isa), what, DtypeName(of.gradients),
                     of.casts ? " to bfloat16" : "", of.bytes / 1024,
                     of.team->size() > 1 ? fmt::format("/{} threads", of.team->size()) : "");
}

void RegisterCases(ThreadTeam* team) {
  for (const size_t bytes : {size_t{64} << 20, size_t{256} << 10, size_t{64} << 10}) {
    for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512}) {
      if (isa > BestIsa()) continue;
      for (const weft_dtype_t dtype : {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16}) {
        const Case squares = {team, isa, Which::kAdamW, dtype, false, bytes};
        benchmark::RegisterBenchmark(NameOf(squares, "sum_squares").c_str(), MeasureSquares,
                                     squares)
            ->UseManualTime();
        for (size_t which = 0; which < std::size(kNames); ++which) {
          for (const bool casts : {false, true}) {
            const Case of = {team, isa, static_cast<Which>(which), dtype, casts, bytes};
            benchmark::RegisterBenchmark(NameOf(of, kNames[which]).c_str(), MeasureUpdate, of)
                ->UseManualTime();
          }
        }
      }
    }
  }
}

// Takes --threads=N out of the arguments; 1 if there is none, 0 if it is no number from 1 to 256.
int TakeThreads(int* argc, char** argv) {
  constexpr std::string_view kOption = "--threads=";
  int threads = 1;
  int kept = 1;
  for (int i = 1; i < *argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, kOption.size()) != kOption) {
      argv[kept++] = argv[i];
      continue;
    }
    const std::string_view number = argument.substr(kOption.size());
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), threads);
    const bool whole = error == std::errc() && end == number.data() + number.size();
    if (!whole || threads < 1 || threads > 256) return 0;
  }
  *argc = kept;
  return threads;
}

int Run(int argc, char** argv) {
  const int threads = TakeThreads(&argc, argv);
  if (threads == 0) {
    std::fprintf(stderr, "optimizer_bench: --threads takes a number from 1 to 256\n");
    return 2;
  }
  const auto team = ThreadTeam::Start(threads);
  if (!team.ok()) {
    std::fprintf(stderr, "optimizer_bench: %s\n", team.status().ToString().c_str());
    return 1;
  }
  RegisterCases(team->get());
  return RunCases(argc, argv);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  return weft::Run(argc, argv);
}

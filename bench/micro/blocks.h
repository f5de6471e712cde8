// Memory that a case works on, and what memcpy makes of it.
//
//   const Blocks blocks(3, 65536);
//   const double rate = MemcpyRate(blocks, 3, 65536);
//   ... state.counters["of_memcpy"] = bytes_moved / seconds / rate;
//
// Thread-safety: none needed; a benchmark runs one case at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

namespace weft {

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

  // The first blocks as a kernel's sources.
  const void* const* sources() const { return blocks_.data(); }

  // Block `i` and those behind it as a kernel's destinations.
  void* const* destinations(int i) const { return blocks_.data() + i; }

 private:
  static constexpr size_t kAlignment = 4096;
  std::vector<std::unique_ptr<char[]>> storage_;
  std::vector<void*> blocks_;
};

// Seconds of this thread's processor time: what other programs take meanwhile is not counted.
inline double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Bytes read and written per second by memcpy from each block to the next, so that the copies go
// through the same memory as the case does: the best of several samples.
inline double MemcpyRate(const Blocks& blocks, int block_count, size_t bytes) {
  constexpr int kSamples = 5;
  const int copies = std::max(1, block_count - 1);
  const int repeats = static_cast<int>(std::max<size_t>(1, (size_t{4} << 20) / bytes / copies));
  double best_seconds = 1e9;
  for (int sample = 0; sample < kSamples; ++sample) {
    const double start = ThreadSeconds();
    for (int repeat = 0; repeat < repeats; ++repeat) {
      for (int i = 0; i < copies; ++i)
        std::memcpy(blocks[i + 1], blocks[i], bytes);
      benchmark::ClobberMemory();
    }
    best_seconds = std::min(best_seconds, (ThreadSeconds() - start) / repeats / copies);
  }
  return 2.0 * static_cast<double>(bytes) / best_seconds;
}

// Runs `pass`, which moves `moved` bytes, as often as `state` wants, and counts its rate and the share
// of memcpy's, measured on the same blocks immediately before and after: the better of the two.
template <typename Pass>
void MeasurePasses(benchmark::State& state, const Blocks& blocks, int block_count, size_t bytes,
                   double moved, Pass pass) {
  double memcpy_rate = MemcpyRate(blocks, block_count, bytes);
  const double start = ThreadSeconds();
  while (state.KeepRunning()) {
    pass();
    benchmark::ClobberMemory();
  }
  const double seconds = ThreadSeconds() - start;
  memcpy_rate = std::max(memcpy_rate, MemcpyRate(blocks, block_count, bytes));
  const double rate = moved * static_cast<double>(state.iterations()) / seconds;
  state.counters["GB/s"] = rate * 1e-9;
  state.counters["memcpy_GB/s"] = memcpy_rate * 1e-9;
  state.counters["of_memcpy"] = rate / memcpy_rate;
}

// Runs the registered cases that the arguments ask for; returns the exit code.
inline int RunCases(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace weft

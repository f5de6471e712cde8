// What one core can tell of a machine. Everything is short, and the least of several tries counts: noise
// only ever adds.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "comm/select/measurement.h"

namespace weft {
namespace {

constexpr int kPassTries = 20;
// Twice this is more than most last levels. Streaming into buffers begins here at the latest (tuning.cc).
constexpr size_t kFarBytes = 24 << 20;
constexpr double kFarLines = static_cast<double>(kFarBytes) / kModelLineBytes;
constexpr uint64_t kFarMemoryMin = uint64_t{1} << 30;  // a container with less has no room for that
constexpr int64_t kFarReserveNs = 30'000'000;          // of the budget, or these are left out
constexpr int kFarTries = 4;

std::optional<double> Per(std::optional<double> ns, double unit) {
  if (ns) *ns /= unit;
  return ns;
}

// Probes as WaitUntil makes them, for nothing.
void Probes(Measurement& measurement) {
  constexpr uint32_t kProbes = 1000;
  EventCount nobody;
  std::atomic<uint32_t> word{0};
  const std::optional<double> ns = measurement.LeastNs(5, [&] {
    Deadline none{.timeout_ns = 0};
    WaitUntil(
        nobody, {.spins = kProbes, .yields = 0}, none,
        [&] { return word.load(std::memory_order_acquire) == 1; }, [] { return true; });
  });
  measurement.Take(&MachineModel::probe_ns, Per(ns, kProbes));
}

void HotCopies(Measurement& measurement) {
  char* const from = measurement.Hot(0);
  char* const to = measurement.Hot(1);
  std::memset(from, 0,
              Measurement::kHotBytes);  // all sums are of zeros: no denormals, which are slow
  const std::optional<double> copy_ns = measurement.LeastNs(
      kPassTries, [&] { measurement.plain()(to, from, Measurement::kHotBytes); });
  measurement.Take(&MachineModel::copy_line_ns, Per(copy_ns, Measurement::kHotLines));

  const ReduceKernel sum = FindReduceKernel(measurement.isa(), WEFT_FLOAT32, WEFT_SUM);
  constexpr size_t kHalf = Measurement::kHotBytes / 2;
  const void* const sources[2] = {from, from + kHalf};
  void* const destination = to;
  const ReduceArguments arguments{sources, 2, &destination, 1, kHalf / sizeof(float), 2};
  const std::optional<double> sum_ns = measurement.LeastNs(kPassTries, [&] { sum(arguments); });
  measurement.Take(&MachineModel::reduce2_line_ns, Per(sum_ns, Measurement::kHotLines / 2));
}

// In pieces, because a memcpy of all of it would stream by itself on some machines.
void CopyFar(const Measurement& measurement, CopyKernel copy, char* to, const char* from) {
  for (size_t at = 0; at < kFarBytes && measurement.TimeLeft(); at += Measurement::kHotBytes)
    copy(to + at, from + at, Measurement::kHotBytes);
}

}  // namespace

void MeasureOneCore(Measurement& measurement) {
  Probes(measurement);
  HotCopies(measurement);
}

void MeasureMemory(Measurement& measurement) {
  const uint64_t memory_bytes = measurement.host().memory_bytes;
  if (memory_bytes != 0 && memory_bytes < kFarMemoryMin) return;
  if (!measurement.TimeLeft(kFarReserveNs)) return measurement.Miss();
  const PrivateBytes memory(2 * kFarBytes);
  if (memory.data() == nullptr) return measurement.Miss();
  // In turn, so that a noisy moment meets both; the first of each warms.
  Samples plain;
  Samples stream;
  for (int i = 0; i < kFarTries; ++i) {
    for (Samples* samples : {&plain, &stream}) {
      const int64_t before_ns = MonotonicNs();
      CopyFar(measurement, samples == &plain ? measurement.plain() : measurement.stream(),
              memory.data() + kFarBytes, memory.data());
      if (i == 0 || !measurement.TimeLeft()) continue;
      samples->Add(static_cast<double>(MonotonicNs() - before_ns) / kFarLines);
    }
  }
  measurement.TakeAll({{&MachineModel::dram_copy_line_ns, plain.Least()},
                       {&MachineModel::dram_copy_stream_line_ns, stream.Least()}});
}

}  // namespace weft

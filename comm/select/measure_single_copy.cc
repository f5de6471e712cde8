// What process_vm_readv costs while the other core does the same, as ranks that exchange blocks do: alone it is up
// to three times as quick.
#include <algorithm>
#include <atomic>

#include <sys/uio.h>
#include <unistd.h>

#include "comm/select/measurement.h"
#include "comm/select/partner.h"

namespace weft {
namespace {

constexpr size_t kBytes = Measurement::kHotBytes / 2;
constexpr int kReadTries = 20;
constexpr int kPartnersReads = 2000;  // more than the measurement takes

// The own process stands for a peer: the kernel finds, pins and copies pages in the same way. The caller
// reads the first half of a buffer into its own, the partner the second half.
bool Read(const Measurement& measurement, bool partner, size_t bytes) {
  const iovec remote = {measurement.Hot(0) + (partner ? kBytes : 0), bytes};
  const iovec local = {measurement.Hot(partner ? 2 : 1), bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

std::optional<double> ReadNs(const Measurement& measurement, size_t bytes) {
  Samples samples;
  for (int i = 0; i < kReadTries && measurement.TimeLeft(); ++i) {
    const int64_t before_ns = MonotonicNs();
    Read(measurement, false, bytes);
    samples.Add(static_cast<double>(MonotonicNs() - before_ns));
  }
  return samples.LowerQuartile();
}

}  // namespace

// A line costs what the rest of a page costs more than its first line, a page what it costs beside its lines.
void MeasureSingleCopy(Measurement& measurement, Partner& partner) {
  constexpr double kMoreLines = static_cast<double>(kModelPageBytes) / kModelLineBytes - 1;
  constexpr double kMorePages = static_cast<double>(kBytes) / kModelPageBytes - 1;
  // A sandbox may forbid it; a group finds that out by itself, and the numbers do not matter then.
  if (!Read(measurement, false, kModelLineBytes)) return;
  std::atomic<bool> measured{false};
  std::atomic<bool> reads{false};
  EventCount copied;
  partner.Begin([&measurement, &measured, &reads, &copied] {
    for (int i = 0; i < kPartnersReads && !measured.load(std::memory_order_relaxed); ++i) {
      Read(measurement, true, kBytes);
      if (i > 0) continue;
      reads.store(true, std::memory_order_seq_cst);
      NotifyAll(copied);
    }
  });
  partner.WaitFor(copied, kMeasureWait, [&reads] { return reads.load(std::memory_order_acquire); });
  const std::optional<double> line_ns = ReadNs(measurement, kModelLineBytes);
  const std::optional<double> page_ns = ReadNs(measurement, kModelPageBytes);
  const std::optional<double> all_ns = ReadNs(measurement, kBytes);
  measured.store(true, std::memory_order_relaxed);
  if (!partner.Finish() || !line_ns || !page_ns || !all_ns) return measurement.Miss();
  // Differences of noisy numbers can be anything; but a line costs something, and so does a page.
  const double per_line =
      std::max((*page_ns - *line_ns) / kMoreLines, measurement.model().copy_line_ns / 4);
  const double per_page =
      std::max((*all_ns - *page_ns) / kMorePages - per_line * (kMoreLines + 1), 1.0);
  measurement.TakeAll(
      {{&MachineModel::single_copy_line_ns, per_line},
       {&MachineModel::single_copy_page_ns, per_page},
       {&MachineModel::single_copy_call_ns, std::max(*line_ns - per_page - per_line, 1.0)}});
}

}  // namespace weft

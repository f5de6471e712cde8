#include "comm/recorder/dump_once.h"

#include <ctime>

#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/recorder/ticks.h"

namespace weft {
namespace {

// Over less the two clocks cannot be compared to a percent.
constexpr int64_t kMeasuredNsMin = 100'000;

int64_t WallTimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

DumpOnce::DumpOnce() : made_ticks_(RecorderTicks()), made_ns_(MonotonicNs()) {}

bool DumpOnce::Take() {
  return !GetOptions().dump_dir.empty() && !written_.exchange(true);
}

uint64_t DumpOnce::TicksPerSecond(uint64_t ticks_now) const {
  const int64_t lived_ns = MonotonicNs() - made_ns_;
  if (lived_ns < kMeasuredNsMin || ticks_now <= made_ticks_) return 0;
  return static_cast<uint64_t>(static_cast<double>(ticks_now - made_ticks_) * 1e9 /
                               static_cast<double>(lived_ns));
}

void DumpOnce::Write(RecorderDump dump) const {
  dump.ticks_now = RecorderTicks();
  dump.ticks_per_second = TicksPerSecond(dump.ticks_now);
  dump.wall_time_ns = WallTimeNs();
  const absl::StatusOr<std::string> path = WriteDumpFile(GetOptions().dump_dir, dump);
  if (path.ok()) {
    LogInfo("group ", dump.group, ": the flight recorder is in ", *path,
            "; weftctl dump prints it");
  } else {
    LogWarn("group ", dump.group, ": ", std::string(path.status().message()));
  }
}

}  // namespace weft

#include "comm/node/failure_dump.h"

#include <ctime>

#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/recorder/dump.h"

namespace weft {
namespace {

// Over less the two clocks cannot be compared to a percent.
constexpr int64_t kMeasuredNsMin = 100'000;

int64_t WallTimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

DumpedRank DumpRank(const NodeState& state, int rank) {
  const NodePeer::Identity& identity = state.peers[static_cast<size_t>(rank)]->identity();
  DumpedRank dumped;
  dumped.pid = identity.pid;
  dumped.start_time = identity.start_time;
  dumped.state = static_cast<uint32_t>(state.control(rank).state.load(std::memory_order_acquire));
  const RecorderRing calls = state.segment.recorder(rank);
  for (uint64_t index = 0; index < RecorderRing::kEntryCount; ++index)
    dumped.entries.push_back(calls.Copy(index));
  const MessageRing messages = state.segment.message_ring(rank);
  for (uint64_t index = 0; index < MessageRing::kEntryCount; ++index)
    dumped.messages.push_back(messages.Copy(index));
  const LifecycleLog lifecycle = state.segment.lifecycle(rank);
  for (uint64_t index = 0; index < LifecycleLog::kEntryCount; ++index)
    dumped.events.push_back(lifecycle.Copy(index));
  return dumped;
}

}  // namespace

FailureDump::FailureDump(const NodeState& state, const std::string& group_name)
    : state_(state), group_(group_name), made_ticks_(RecorderTicks()), made_ns_(MonotonicNs()) {}

void FailureDump::WriteOnce(const absl::Status& cause) {
  const std::string& directory = GetOptions().dump_dir;
  if (directory.empty() || written_.exchange(true)) return;
  Write(directory, cause);
}

uint64_t FailureDump::TicksPerSecond(uint64_t ticks_now) const {
  const int64_t lived_ns = MonotonicNs() - made_ns_;
  if (lived_ns < kMeasuredNsMin || ticks_now <= made_ticks_) return 0;
  return static_cast<uint64_t>(static_cast<double>(ticks_now - made_ticks_) * 1e9 /
                               static_cast<double>(lived_ns));
}

void FailureDump::Write(const std::string& directory, const absl::Status& cause) const {
  const auto& self = state_.peers[static_cast<size_t>(state_.rank)]->identity();
  RecorderDump dump;
  dump.group = group_;
  dump.group_id = state_.segment.header().group_id;
  dump.host = self.host;
  dump.reason = std::string(cause.message());
  dump.result = ResultOf(cause);
  dump.writer_rank = static_cast<uint32_t>(state_.rank);
  dump.writer_pid = self.pid;
  dump.epoch = state_.epoch;
  dump.ticks_now = RecorderTicks();
  dump.ticks_per_second = TicksPerSecond(dump.ticks_now);
  dump.wall_time_ns = WallTimeNs();
  for (int rank = 0; rank < state_.size; ++rank)
    dump.ranks.push_back(DumpRank(state_, rank));
  const absl::StatusOr<std::string> path = WriteDumpFile(directory, dump);
  if (path.ok()) {
    LogInfo("group ", group_, ": the flight recorder is in ", *path, "; weftctl dump prints it");
  } else {
    LogWarn("group ", group_, ": ", std::string(path.status().message()));
  }
}

}  // namespace weft

#include "comm/node/failure_dump.h"

#include <utility>

#include "base/status.h"

namespace weft {
namespace {

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

void FailureDump::WriteOnce(const absl::Status& cause) {
  if (!state_.group_ranks.empty() || !once_.Take()) return;
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
  for (int rank = 0; rank < state_.size; ++rank)
    dump.ranks.push_back(DumpRank(state_, rank));
  once_.Write(std::move(dump));
}

}  // namespace weft

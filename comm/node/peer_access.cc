#include "comm/node/peer_access.h"

#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft {

std::string Quiesce(const PeerAccess& access, std::span<const void* const> buffers,
                    const WaitPolicy& policy, Deadline& patience) {
  const auto stopped = [&] {
    return access.under_way.load(std::memory_order_seq_cst) == 0;
  };
  const auto ended = [&] {
    return access.process.Ended().has_value();
  };
  const WaitResult result = WaitUntil(access.changed, policy, patience, stopped, ended);
  if (result != WaitResult::kDeadline) return "";
  for (const void* const buffer : buffers)
    ProcessHeap().Quarantine(buffer);
  return fmt::format(
      "; rank {} (process {}) did not stop using this rank's {} put in quarantine", access.peer,
      access.process.StateName(),
      buffers.size() == 1 ? "buffer, it was" : "buffers, those from its own heap were");
}

}  // namespace weft

// A group as the agent sees it: something whose ranks' processes may end, and that may wait for too long.
//
// Groups implement it, and what else of a process must be looked after without anybody waiting in it; agent.h is all that calls
// it, and knows no more of them. What has no ranks that are waited for has a Look() alone.
// Thread-safety: Look, AppendPollItems, Wait, Show and Read from one thread at a time, but any; AppendLifelines while the group is added or removed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/net.h"
#include "comm/agent/wait_cycle.h"

namespace weft {

class Watched {
 public:
  virtual ~Watched() = default;

  // Descriptors that become readable when a process of another rank ends. Borrowed: they stay open, and the list the same, until
  // the group has been removed.
  virtual void AppendLifelines(std::vector<int>* /*lifelines*/) const {}

  // What else it waits for, sockets say, as of the last Look(); asked after each.
  virtual void AppendPollItems(std::vector<PollItem>* /*items*/) const {}

  // Ends the group if a rank is lost, and reports waits that last. Returns when it is to be called again, though no process
  // has ended; on the agent's clock. Never waits. Nothing for a group that has been closed.
  virtual int64_t Look(int64_t now_ns) = 0;

  // What this process waits in, as of the last Look(), if it is one rank of the group.
  virtual std::optional<ProcessWait> Wait() const { return std::nullopt; }

  // Shows the processes of the group what this one waits in, in whichever of its groups; nothing: it does not.
  virtual void Show(const std::optional<ProcessWait>& /*wait*/) {}

  // What a process of the group shows.
  virtual std::optional<ProcessWait> Read(const ProcessName& /*process*/) const {
    return std::nullopt;
  }
};

}  // namespace weft

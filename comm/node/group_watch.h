// A node group as the agent looks after it: ends it when a rank's process has ended, whether or not anybody waits in it.
//
//   WatchGroup(std::shared_ptr<Watched>(group, &group->watch()));    // once it can be used
//   UnwatchGroup(&watch_);                                           // before its peers are let go
//
// Who waits for a rank that has ended finds it by itself within milliseconds, and names its operation (operation_driver.h). The
// agent is for all others: groups in which nobody waits, and ranks that wait for one that is stopped.
//
// A rank that has destroyed its handle has left and is not lost. One that ends without, after it has done its part of the last
// operation, or has sent its last message, does no harm to ranks that still finish these: so the group goes on while some
// living rank has something left to take from it, for half a second; and the others have a moment
// to find that they have called different things (early_leavers.h).
// Thread-safety: as Watched; End from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/proc.h"
#include "base/wait.h"
#include "comm/agent/watched.h"
#include "comm/group/notice_board.h"
#include "comm/node/failure.h"
#include "comm/node/gate.h"
#include "comm/node/group_counters.h"
#include "comm/node/node_state.h"
#include "comm/node/parts.h"
#include "comm/node/wait_report.h"

namespace weft {

class GroupWatch : public Watched {
 public:
  static constexpr int64_t kGraceNs = 500'000'000;

  // All outlive the watch; of `state` only the constants are used. `woken` is notified when the group ends here.
  GroupWatch(const NodeState& state, FailureReporter& failures, const GroupCounters& counters,
             Parts& parts, NoticeBoard& notices, Gate& gate, EventCount& woken)
      : state_(state),
        failures_(failures),
        parts_(parts),
        notices_(notices),
        gate_(gate),
        woken_(woken),
        report_(state, failures, counters) {}

  void AppendLifelines(std::vector<int>* lifelines) const override;
  int64_t Look(int64_t now_ns) override;

  // Ends the group, and before it those that were split from it: whoever sees that the group has ended may leave them at once.
  // Any thread, inside the gate.
  void End(const absl::Status& cause);

  std::optional<ProcessWait> Wait() const override;
  void Show(const std::optional<ProcessWait>& wait) override;
  std::optional<ProcessWait> Read(const ProcessName& process) const override;

 private:
  bool Serves(int rank) const;
  bool HasUnread(int from, int to) const;
  int64_t LookAtRanks(int64_t now_ns);

  const NodeState& state_;
  FailureReporter& failures_;
  Parts& parts_;
  NoticeBoard& notices_;
  Gate& gate_;
  EventCount& woken_;
  WaitReport report_;
  std::array<int64_t, kNodeRanksMax> ended_ns_{};  // by rank: when its end was seen; 0: not yet
};

}  // namespace weft

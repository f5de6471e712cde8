// Looks after the links of a rank to ranks of other nodes as the agent does after groups: says which of them are stalled, and shows the other
// processes of the node what these and those that carry data do (link_note.h), so that none of their ranks blames a rank for a link.
//
//   auto links = std::make_shared<LinkWatch>(transport, members, rank, show);
//   WatchGroup(links);
//   ...
//   UnwatchGroup(links.get());
//   links->Close();                                  // before the transport goes
//
// A warning when a link is found stalled, after some two seconds, then after 10, 20, 40 s; and a line at level info when data passes again.
// Thread-safety: as Watched; Close from any thread. The transport is borrowed until then.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/agent/watched.h"
#include "comm/hierarchy/link_health.h"
#include "comm/hierarchy/link_note.h"
#include "comm/rendezvous/membership.h"
#include "comm/transport/transport.h"

namespace weft {

class LinkWatch : public Watched {
 public:
  // `members` are those that the transport numbers. `show` gets what there is to show when it has changed.
  LinkWatch(Transport& transport, std::vector<GroupMember> members, int rank,
            std::function<void(const std::vector<LinkNote>&)> show);

  // Nothing is looked at from here on.
  void Close();

  // Watched.
  int64_t Look(int64_t now_ns) override;

 private:
  LinkNote NoteOf(const LinkHealth::Finding& found) const;
  void Report(const LinkHealth::Finding& found) WEFT_REQUIRES(mutex_);
  void ReportEnds(const std::vector<LinkHealth::Finding>& findings) WEFT_REQUIRES(mutex_);

  Transport& transport_;
  const std::vector<GroupMember> members_;
  const int rank_;

  Mutex mutex_;
  std::function<void(const std::vector<LinkNote>&)> show_ WEFT_GUARDED_BY(mutex_);  // none: closed
  LinkHealth health_ WEFT_GUARDED_BY(mutex_);
  int64_t next_ns_ WEFT_GUARDED_BY(mutex_) = 0;
  bool shown_ WEFT_GUARDED_BY(mutex_) = false;
  // By peer and number of the connection: how long one will have been stalled at the next line.
  std::map<std::pair<int, int>, int64_t> told_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft

// What the ranks of a job over several islands have until they leave it, however often the group is made anew of those that live: the
// links between them, the watch over the islands, and a home group of this island's ranks.
//
//   auto links = std::make_shared<SpanLinks>(home, end, watch, std::move(transport), members, rank);
//   links->Begin();
//   links->Retire();                      // ranks are gone, and the others go on: that is no failure from here on
//   links->Renew(home, end);              // of those that do
//
// The home group is split from the first group's ranks of the island. It ends with that and with any of its ranks, so what it ends by is
// the end of all groups. The links, and the watch, work in memory of the first home group, which therefore stays.
//
// Thread-safety: any thread; Retire and Renew by one at a time. Whoever releases it last leaves the job: its destructor waits for a
// moment (SpanWatch::Leave).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/options.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/link_watch.h"
#include "comm/hierarchy/net_buffers.h"
#include "comm/hierarchy/span_end.h"
#include "comm/hierarchy/span_watch.h"
#include "comm/transport/transport.h"

namespace weft {

class SpanLinks {
 public:
  SpanLinks(std::shared_ptr<ProcessGroup> home, std::shared_ptr<SpanEnd> end,
            std::shared_ptr<SpanWatch> watch, std::unique_ptr<Transport> transport,
            const std::vector<GroupMember>& members, int rank)
      : first_home_(home),
        first_group_id_(end->group_id()),
        watch_(std::move(watch)),
        transport_(std::move(transport)),
        link_watch_(std::make_shared<LinkWatch>(
            *transport_, members, rank,
            [this](const std::vector<LinkNote>& notes) { watch_->ShowLinks(notes); })),
        home_(std::move(home)),
        end_(std::move(end)) {}

  SpanLinks(const SpanLinks&) = delete;
  SpanLinks& operator=(const SpanLinks&) = delete;
  ~SpanLinks();

  // From here on the progress thread looks after it.
  void Begin();

  void Retire();
  void Renew(std::shared_ptr<ProcessGroup> home, std::shared_ptr<SpanEnd> end);

  SpanWatch& watch() { return *watch_; }

  Transport& transport() { return *transport_; }

  const std::shared_ptr<NetBuffers>& buffers() const { return buffers_; }

  // Of the first home group: the same on all ranks.
  uint64_t first_group_id() const { return first_group_id_; }

  // Links that were lost, and when that was first seen.
  struct LostLink {
    LinkEvent event;
    int64_t since_ns = 0;
  };

  std::vector<LostLink> LostLinks(int64_t now_ns);

 private:
  void CloseHome();

  const std::shared_ptr<ProcessGroup> first_home_;
  const uint64_t first_group_id_;
  const std::shared_ptr<SpanWatch> watch_;
  const std::unique_ptr<Transport> transport_;
  const std::shared_ptr<LinkWatch> link_watch_;
  const std::shared_ptr<NetBuffers> buffers_ =
      std::make_shared<NetBuffers>(static_cast<size_t>(GetOptions().net_bytes));
  std::shared_ptr<ProcessGroup> home_;  // that of now
  std::shared_ptr<SpanEnd> end_;        // its
  Mutex mutex_;
  std::vector<LostLink> lost_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft

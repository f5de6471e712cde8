// What a group over several islands and all that are split from it have in common: the links between their ranks, the watch over
// the islands, and a group of this island's ranks that lasts as long as any of them.
//
//   auto net = std::make_shared<SpanNet>(home, end, watch, std::move(transport));
//   net->Begin();
//   if (absl::Status gone = net->Cause(); !gone.ok()) ...      // a rank has died, or the first group has ended
//
// The home group is split from the first group's ranks of the island. It ends with that and with any of its ranks, so what it ends by is
// the end of all groups.
//
// Thread-safety: any thread. Whoever releases it last leaves the job: its destructor waits for a moment (SpanWatch::Leave).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/net_buffers.h"
#include "comm/hierarchy/span_end.h"
#include "comm/hierarchy/span_watch.h"
#include "comm/transport/transport.h"

namespace weft {

class SpanNet {
 public:
  SpanNet(std::shared_ptr<ProcessGroup> home, std::shared_ptr<SpanEnd> end,
          std::shared_ptr<SpanWatch> watch, std::unique_ptr<Transport> transport)
      : home_(std::move(home)),
        end_(std::move(end)),
        watch_(std::move(watch)),
        transport_(std::move(transport)) {}

  SpanNet(const SpanNet&) = delete;
  SpanNet& operator=(const SpanNet&) = delete;
  ~SpanNet();

  // From here on the progress thread looks after it.
  void Begin();

  SpanWatch& watch() { return *watch_; }

  Transport& transport() { return *transport_; }

  const std::shared_ptr<NetBuffers>& buffers() const { return buffers_; }

  // Why all groups have ended, in the numbers of the first one; Ok while they have not. Never waits.
  absl::Status Cause() { return watch_->Cause(*end_); }

  // The same as it was found on this island, before all have settled on it.
  absl::Status Found() { return home_->error(); }

  // Links that were lost, and when that was first seen.
  struct LostLink {
    LinkEvent event;
    int64_t since_ns = 0;
  };

  std::vector<LostLink> LostLinks(int64_t now_ns);

 private:
  const std::shared_ptr<ProcessGroup> home_;
  const std::shared_ptr<SpanEnd> end_;
  const std::shared_ptr<SpanWatch> watch_;
  const std::unique_ptr<Transport> transport_;
  const std::shared_ptr<NetBuffers> buffers_ = std::make_shared<NetBuffers>();
  Mutex mutex_;
  std::vector<LostLink> lost_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft

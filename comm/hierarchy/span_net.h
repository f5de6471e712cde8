// What a group over several islands and all that are split from it have in common: the links between their ranks, the watch over the
// islands, and the home group of this island's ranks, which lasts as long as any of them.
//
//   auto net = std::make_shared<SpanNet>(links, home, end);
//   if (absl::Status gone = net->Cause(); !gone.ok()) ...      // a rank has died, or the first group has ended
//
// A group that is made anew has another one, with the same links.
//
// Thread-safety: any thread. Whoever releases the last one leaves the job (span_links.h).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/net_buffers.h"
#include "comm/hierarchy/span_end.h"
#include "comm/hierarchy/span_links.h"
#include "comm/hierarchy/span_watch.h"
#include "comm/transport/transport.h"

namespace weft {

class SpanNet {
 public:
  SpanNet(std::shared_ptr<SpanLinks> links, std::shared_ptr<ProcessGroup> home,
          std::shared_ptr<SpanEnd> end)
      : links_(std::move(links)), home_(std::move(home)), end_(std::move(end)) {}

  const std::shared_ptr<SpanLinks>& links() const { return links_; }

  SpanWatch& watch() { return links_->watch(); }

  Transport& transport() { return links_->transport(); }

  const std::shared_ptr<NetBuffers>& buffers() const { return links_->buffers(); }

  // Why all groups have ended, in the numbers of the first one; Ok while they have not. Never waits.
  absl::Status Cause() { return watch().Cause(*end_); }

  // The same as it was found on this island, before all have settled on it.
  absl::Status Found() { return home_->error(); }

  std::vector<SpanLinks::LostLink> LostLinks(int64_t now_ns) { return links_->LostLinks(now_ns); }

 private:
  const std::shared_ptr<SpanLinks> links_;
  const std::shared_ptr<ProcessGroup> home_;
  const std::shared_ptr<SpanEnd> end_;
};

}  // namespace weft

#include "comm/hierarchy/span_net.h"

#include <utility>

#include "comm/group/progress.h"

namespace weft {

void SpanNet::Begin() {
  WatchGroup(watch_);
  LookSoon();
}

std::vector<SpanNet::LostLink> SpanNet::LostLinks(int64_t now_ns) {
  MutexLock lock(mutex_);
  for (LinkEvent& event : transport_->TakeEvents())
    lost_.push_back({std::move(event), now_ns});
  return lost_;
}

SpanNet::~SpanNet() {
  if (!watch_->here()) return;  // the parent's to close
  watch_->Leave();
  watch_->Remove(end_.get());
  UnwatchGroup(watch_.get());
  transport_->Leave();  // it works in memory of the home group's
  home_->Close();
}

}  // namespace weft

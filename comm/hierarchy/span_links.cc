#include "comm/hierarchy/span_links.h"

#include <utility>

#include "comm/group/progress.h"

namespace weft {

void SpanLinks::Begin() {
  WatchGroup(watch_);
  WatchGroup(link_watch_);
  LookSoon();
}

void SpanLinks::Retire() {
  watch_->Remove(end_.get());
}

void SpanLinks::Renew(std::shared_ptr<ProcessGroup> home, std::shared_ptr<SpanEnd> end) {
  Retire();
  CloseHome();
  home_ = std::move(home);
  end_ = std::move(end);
  watch_->Add(end_, SpanWatch::Kind::kHome);
}

// The first one's memory is in use.
void SpanLinks::CloseHome() {
  if (home_ != first_home_) home_->Close();
}

std::vector<SpanLinks::LostLink> SpanLinks::LostLinks(int64_t now_ns) {
  MutexLock lock(mutex_);
  for (LinkEvent& event : transport_->TakeEvents())
    lost_.push_back({std::move(event), now_ns});
  return lost_;
}

SpanLinks::~SpanLinks() {
  if (!watch_->here()) return;  // the parent's to close
  UnwatchGroup(link_watch_.get());
  link_watch_->Close();
  watch_->Leave();
  watch_->Remove(end_.get());
  UnwatchGroup(watch_.get());
  transport_->Leave();
  CloseHome();
  first_home_->Close();
}

}  // namespace weft

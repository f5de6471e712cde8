#include "comm/rendezvous/remote_store.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/interrupt.h"
#include "base/later.h"
#include "base/status.h"

namespace weft {

// One turn of the loop: sleeps until there is something to do, then does it.
absl::Status RemoteStore::Turn() {
  std::vector<PollItem> items;
  client_.AppendPollItems(&items);
  const int64_t now_ns = seams_.clock->NowNs();
  const int64_t left_ns = std::max<int64_t>(client_.NextWakeNs() - now_ns, 0);
  WEFT_RETURN_IF_ERROR(seams_.net->Poll(items, Later(now_ns, UntilInterruptNs(left_ns))));
  client_.Step();
  return absl::OkStatus();
}

absl::Status RemoteStore::Connect() {
  client_.Step();
  while (!client_.connected()) {
    if (!client_.failure().ok()) return client_.failure();
    WEFT_RETURN_IF_ERROR(CheckInterrupt("connecting to the store"));
    WEFT_RETURN_IF_ERROR(Turn());
  }
  return absl::OkStatus();
}

StoreReply RemoteStore::Ask(StoreRequest request) {
  client_.Start(std::move(request));
  client_.Step();
  while (!client_.done()) {
    if (absl::Status status = Turn(); !status.ok()) return {.status = std::move(status)};
  }
  return client_.TakeReply();
}

}  // namespace weft

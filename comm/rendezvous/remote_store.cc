#include "comm/rendezvous/remote_store.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/interrupt.h"
#include "base/later.h"
#include "base/log.h"
#include "base/notice_times.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {

std::string RemoteStore::NameOf(const StoreClientOptions& options) {
  return options.rank < 0 ? "this process" : StrCat("rank ", options.rank, " of ", options.size);
}

// One turn of the loop: sleeps until there is something to do, at most until that time, then does it.
absl::Status RemoteStore::Turn(int64_t until_ns) {
  std::vector<PollItem> items;
  client_.AppendPollItems(&items);
  const int64_t now_ns = seams_.clock->NowNs();
  const int64_t left_ns = std::max<int64_t>(std::min(client_.NextWakeNs(), until_ns) - now_ns, 0);
  WEFT_RETURN_IF_ERROR(seams_.net->Poll(items, Later(now_ns, UntilInterruptNs(left_ns))));
  client_.Step();
  return absl::OkStatus();
}

absl::Status RemoteStore::Connect() {
  NoticeTimes notices(seams_.clock->NowNs());
  client_.Step();
  while (!client_.connected()) {
    if (!client_.failure().ok()) return client_.failure();
    WEFT_RETURN_IF_ERROR(CheckInterrupt("connecting to the store"));
    WEFT_RETURN_IF_ERROR(Turn(notices.next_ns()));
    if (client_.connected() || !client_.failure().ok()) continue;
    if (const int64_t waited_s = notices.Due(seams_.clock->NowNs()); waited_s > 0)
      LogWarn(self_, " has waited ", waited_s, " s for ", client_.Unreached());
  }
  return absl::OkStatus();
}

StoreReply RemoteStore::Ask(StoreRequest request) {
  client_.Start(std::move(request));
  client_.Step();
  while (!client_.done()) {
    if (absl::Status status = Turn(INT64_MAX); !status.ok()) return {.status = std::move(status)};
  }
  return client_.TakeReply();
}

}  // namespace weft

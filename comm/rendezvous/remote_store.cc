#include "comm/rendezvous/remote_store.h"

#include <utility>
#include <vector>

#include "base/status.h"

namespace weft {

// One turn of the loop: sleeps until there is something to do, then does it.
absl::Status RemoteStore::Turn() {
  std::vector<PollItem> items;
  client_.AppendPollItems(&items);
  WEFT_RETURN_IF_ERROR(seams_.net->Poll(items, client_.NextWakeNs()));
  client_.Step();
  return absl::OkStatus();
}

absl::Status RemoteStore::Connect() {
  client_.Step();
  while (!client_.connected()) {
    if (!client_.failure().ok()) return client_.failure();
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

absl::Status RemoteStore::Set(std::string_view key, std::string_view value, int64_t deadline_ns) {
  return Ask({.kind = StoreRequest::Kind::kSet,
              .key = std::string(key),
              .value = std::string(value),
              .deadline_ns = deadline_ns})
      .status;
}

absl::StatusOr<std::string> RemoteStore::Wait(std::string_view key, int64_t deadline_ns) {
  StoreReply reply =
      Ask({.kind = StoreRequest::Kind::kWait, .key = std::string(key), .deadline_ns = deadline_ns});
  if (!reply.status.ok()) return reply.status;
  return std::move(reply.value);
}

absl::StatusOr<int64_t> RemoteStore::Add(std::string_view key, int64_t delta, int64_t deadline_ns) {
  const StoreReply reply = Ask({.kind = StoreRequest::Kind::kAdd,
                                .key = std::string(key),
                                .delta = delta,
                                .deadline_ns = deadline_ns});
  if (!reply.status.ok()) return reply.status;
  return reply.number;
}

}  // namespace weft

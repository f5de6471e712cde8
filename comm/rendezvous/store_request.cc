#include "comm/rendezvous/store_request.h"

#include <utility>

#include "base/status.h"
#include "base/text.h"

namespace weft {

StoreReply Perform(Store& store, const StoreRequest& request) {
  StoreReply reply;
  if (request.kind == StoreRequest::Kind::kSet) {
    reply.status = store.Set(request.key, request.value, request.deadline_ns);
  } else if (request.kind == StoreRequest::Kind::kAdd) {
    absl::StatusOr<int64_t> sum = store.Add(request.key, request.delta, request.deadline_ns);
    reply.status = sum.status();
    if (sum.ok()) reply.number = *sum;
  } else {
    absl::StatusOr<std::string> value = store.Wait(request.key, request.deadline_ns);
    reply.status = value.status();
    if (value.ok()) reply.value = *std::move(value);
  }
  return reply;
}

absl::Status CheckRequest(const StoreRequest& request) {
  if (request.key.empty() || request.key.size() > kStoreKeyBytesMax) {
    return MakeError(WEFT_INVALID_ARGUMENT, StrCat("a store key has ", request.key.size(),
                                                   " bytes, allowed are 1 to ", kStoreKeyBytesMax));
  }
  if (request.value.size() > kStoreValueBytesMax) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("the value of store key ", request.key, " has ", request.value.size(),
                            " bytes, allowed are ", kStoreValueBytesMax));
  }
  return absl::OkStatus();
}

}  // namespace weft

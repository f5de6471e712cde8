// The requests to a store as calls.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "comm/rendezvous/store.h"

namespace weft {

inline absl::Status Set(Store& store, std::string_view key, std::string_view value,
                        int64_t deadline_ns) {
  return store
      .Ask({.kind = StoreRequest::Kind::kSet,
            .key = std::string(key),
            .value = std::string(value),
            .deadline_ns = deadline_ns})
      .status;
}

inline absl::StatusOr<std::string> Wait(Store& store, std::string_view key, int64_t deadline_ns) {
  StoreReply reply = store.Ask({.key = std::string(key), .deadline_ns = deadline_ns});
  if (!reply.status.ok()) return reply.status;
  return std::move(reply.value);
}

inline absl::StatusOr<int64_t> Add(Store& store, std::string_view key, int64_t delta,
                                   int64_t deadline_ns) {
  const StoreReply reply = store.Ask({.kind = StoreRequest::Kind::kAdd,
                                      .key = std::string(key),
                                      .delta = delta,
                                      .deadline_ns = deadline_ns});
  if (!reply.status.ok()) return reply.status;
  return reply.number;
}

inline absl::Status Remove(Store& store, std::string_view key, int64_t deadline_ns) {
  return store
      .Ask({.kind = StoreRequest::Kind::kRemove,
            .key = std::string(key),
            .deadline_ns = deadline_ns})
      .status;
}

}  // namespace weft

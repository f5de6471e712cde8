// One request to a store and its answer, as values: what state machines exchange instead of calls.
//
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "comm/rendezvous/store.h"

namespace weft {

struct StoreRequest {
  enum class Kind { kSet, kWait, kAdd };
  Kind kind = Kind::kWait;
  std::string key;
  std::string value;        // of kSet
  int64_t delta = 0;        // of kAdd
  int64_t deadline_ns = 0;  // in the past: a kWait only looks whether the key is there
};

struct StoreReply {
  absl::Status status;
  std::string value;   // of kWait
  int64_t number = 0;  // of kAdd
};

// Asks a blocking store.
StoreReply Perform(Store& store, const StoreRequest& request);

// INVALID_ARGUMENT for an empty or too long key or a too long value.
absl::Status CheckRequest(const StoreRequest& request);

}  // namespace weft

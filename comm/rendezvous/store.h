// What ranks need to find each other: a key-value store.
//
//   StoreReply reply = store.Ask({.kind = StoreRequest::Kind::kWait, .key = "rank 0", .deadline_ns = deadline_ns});
//
// Requests and replies are values, which state machines exchange instead of calls.
//
// Thread-safety: one request at a time. Deadlines are on MonotonicNs's clock (base/wait.h).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace weft {

constexpr size_t kStoreKeyBytesMax = 1024;
constexpr size_t kStoreValueBytesMax = 1 << 20;

struct StoreRequest {
  enum class Kind {
    kSet,     // writes `value`, replacing what was there
    kWait,    // waits for the key; WEFT_TIMEOUT if it does not come
    kAdd,     // adds `delta` to the decimal number there (0 if absent)
    kRemove,  // removes the key, if it is there and the store can
  };
  Kind kind = Kind::kWait;
  std::string key;
  std::string value;        // of kSet
  int64_t delta = 0;        // of kAdd
  int64_t deadline_ns = 0;  // in the past: a kWait only looks whether the key is there
};

struct StoreReply {
  absl::Status status;
  bool unanswered = false;  // of a TIMEOUT: the store has not said so, it has said nothing
  std::string value;        // of kWait
  int64_t number = 0;       // of kAdd: the sum
};

// INVALID_ARGUMENT for an empty or too long key or a too long value.
absl::Status CheckRequest(const StoreRequest& request);

class Store {
 public:
  virtual ~Store() = default;
  virtual StoreReply Ask(StoreRequest request) = 0;

  // What messages call it: where it is, and of whom.
  virtual std::string Where() const { return "the store that the program has passed"; }
};

}  // namespace weft

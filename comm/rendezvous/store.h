// What ranks need to find each other: a key-value store.
//
// Thread-safety: one call at a time. Deadlines are on MonotonicNs's clock (base/wait.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

constexpr size_t kStoreKeyBytesMax = 1024;
constexpr size_t kStoreValueBytesMax = 1 << 20;

class Store {
 public:
  virtual ~Store() = default;
  // Writes `value` under `key`, replacing what was there.
  virtual absl::Status Set(std::string_view key, std::string_view value, int64_t deadline_ns) = 0;
  // Waits for `key`; WEFT_TIMEOUT if it does not come.
  virtual absl::StatusOr<std::string> Wait(std::string_view key, int64_t deadline_ns) = 0;
  // Adds to the decimal number under `key` (0 if absent) and returns the sum.
  virtual absl::StatusOr<int64_t> Add(std::string_view key, int64_t delta, int64_t deadline_ns) = 0;
};

}  // namespace weft

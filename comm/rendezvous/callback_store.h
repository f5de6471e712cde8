// A store that a host framework provides as C callbacks (weft/store.h).
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, CallbackStore::Create(callbacks));
//
// Thread-safety: one call at a time. `user` is borrowed for the lifetime of the store.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "weft/store.h"

#include "comm/rendezvous/store.h"

namespace weft {

class CallbackStore : public Store {
 public:
  // INVALID_ARGUMENT for NULL, a struct_size of another header or a missing function.
  static absl::StatusOr<std::unique_ptr<CallbackStore>> Create(
      const weft_store_callbacks_t* callbacks);

  absl::Status Set(std::string_view key, std::string_view value, int64_t deadline_ns) override;
  absl::StatusOr<std::string> Wait(std::string_view key, int64_t deadline_ns) override;
  absl::StatusOr<int64_t> Add(std::string_view key, int64_t delta, int64_t deadline_ns) override;

 private:
  explicit CallbackStore(const weft_store_callbacks_t& callbacks) : callbacks_(callbacks) {}

  const weft_store_callbacks_t callbacks_;
};

}  // namespace weft

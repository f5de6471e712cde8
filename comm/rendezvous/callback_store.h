// A store that a host framework provides as C callbacks (weft/store.h).
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, CallbackStore::Create(callbacks));
//
// Thread-safety: one call at a time. `user` is borrowed for the lifetime of the store, whose end gives it back.
#pragma once

#include <memory>
#include <string>

#include "weft/store.h"

#include "absl/status/statusor.h"
#include "comm/rendezvous/store.h"

namespace weft {

class CallbackStore : public Store {
 public:
  // INVALID_ARGUMENT for NULL, a struct_size of another header or a missing function.
  static absl::StatusOr<std::unique_ptr<CallbackStore>> Create(
      const weft_store_callbacks_t* callbacks);

  CallbackStore(const CallbackStore&) = delete;
  CallbackStore& operator=(const CallbackStore&) = delete;
  ~CallbackStore() override;

  StoreReply Ask(StoreRequest request) override;

 private:
  explicit CallbackStore(const weft_store_callbacks_t& callbacks) : callbacks_(callbacks) {}

  absl::StatusOr<std::string> Get(const StoreRequest& request) const;

  const weft_store_callbacks_t callbacks_;
};

}  // namespace weft

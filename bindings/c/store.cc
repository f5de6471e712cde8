#include "weft/store.h"

#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "bindings/c/struct_size.h"
#include "comm/rendezvous/callback_store.h"
#include "comm/rendezvous/rendezvous.h"

using weft::Guarded;

weft_result_t weft_unique_id_create(weft_unique_id_t* id) {
  return Guarded([&]() -> absl::Status {
    if (id == nullptr) return weft::InvalidArgument("weft_unique_id_create", "id is NULL");
    WEFT_ASSIGN_OR_RETURN(*id, weft::CreateUniqueId());
    return absl::OkStatus();
  });
}

weft_result_t weft_store_create_callbacks(const weft_store_callbacks_t* callbacks,
                                          weft_store_t* store) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_store_create_callbacks";
    if (callbacks == nullptr || store == nullptr) {
      return weft::InvalidArgument(kCall, "callbacks or store is NULL");
    }
    weft_store_callbacks_t full{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, callbacks, &full));
    if (full.set == nullptr || full.get == nullptr || full.add == nullptr) {
      return weft::InvalidArgument(kCall, "one of set, get and add is NULL");
    }
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<weft::Store> wrapped, weft::CallbackStore::Create(&full));
    auto* const made = new weft_store;
    made->store = std::move(wrapped);
    *store = made;
    return absl::OkStatus();
  });
}

weft_result_t weft_store_destroy(weft_store_t store) {
  return Guarded([&]() -> absl::Status {
    if (store == nullptr) return absl::OkStatus();
    if (store->magic != weft_store::kMagic) {
      return weft::InvalidArgument("weft_store_destroy", "store is not a store");
    }
    store->magic = 0;
    delete store;
    return absl::OkStatus();
  });
}

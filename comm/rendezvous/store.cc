#include "comm/rendezvous/store.h"

#include "base/status.h"
#include "base/text.h"

namespace weft {

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

// The store over a socket, as blocking calls: a StoreClient and the loop that drives it.
//
// Thread-safety: one call at a time. The destructor says goodbye to the server.
#pragma once

#include "comm/rendezvous/store.h"
#include "comm/rendezvous/store_client.h"

namespace weft {

class RemoteStore : public Store {
 public:
  RemoteStore(const Seams& seams, StoreClientOptions options)
      : seams_(seams), client_(seams, std::move(options)) {}

  StoreReply Ask(StoreRequest request) override;

  // Waits until the server has let this process in. TIMEOUT at the connect deadline, AUTH_FAILED,
  // UNSUPPORTED (another version).
  absl::Status Connect();

 private:
  absl::Status Turn();

  const Seams seams_;
  StoreClient client_;
};

}  // namespace weft

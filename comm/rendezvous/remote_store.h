// The store over a socket, as blocking calls: a StoreClient and the loop that drives it.
//
// Thread-safety: one call at a time. The destructor says goodbye to the server.
#pragma once

#include <string>
#include <string_view>

#include "comm/rendezvous/store.h"
#include "comm/rendezvous/store_client.h"

namespace weft {

class RemoteStore : public Store {
 public:
  RemoteStore(const Seams& seams, StoreClientOptions options)
      : seams_(seams), client_(seams, std::move(options)) {}

  absl::Status Set(std::string_view key, std::string_view value, int64_t deadline_ns) override;
  absl::StatusOr<std::string> Wait(std::string_view key, int64_t deadline_ns) override;
  absl::StatusOr<int64_t> Add(std::string_view key, int64_t delta, int64_t deadline_ns) override;

  // Waits until the server has let this process in. TIMEOUT at the connect deadline, AUTH_FAILED,
  // UNSUPPORTED (another version).
  absl::Status Connect();

 private:
  StoreReply Ask(StoreRequest request);
  absl::Status Turn();

  const Seams seams_;
  StoreClient client_;
};

}  // namespace weft

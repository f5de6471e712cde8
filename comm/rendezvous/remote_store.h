// The store over a socket, as blocking calls: a StoreClient and the loop that drives it.
//
// Thread-safety: one call at a time. The destructor says goodbye to the server.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "comm/rendezvous/store.h"
#include "comm/rendezvous/store_client.h"

namespace weft {

class RemoteStore : public Store {
 public:
  RemoteStore(const Seams& seams, StoreClientOptions options)
      : seams_(seams), self_(NameOf(options)), client_(seams, std::move(options)) {}

  StoreReply Ask(StoreRequest request) override;

  // Waits until the server has let this process in, and says meanwhile what it is answered (notice_times.h). TIMEOUT at the connect
  // deadline, AUTH_FAILED, UNSUPPORTED (another version).
  absl::Status Connect();

  std::string Where() const override { return client_.Where(); }

 private:
  absl::Status Turn(int64_t until_ns);

  static std::string NameOf(const StoreClientOptions& options);

  const Seams seams_;
  const std::string self_;  // "rank 1 of 4"
  StoreClient client_;
};

}  // namespace weft

// The store that weftrun keeps for as long as its job runs: where ranks that it has started again find the others.
//
//   JobStore store;
//   store.Ask({.kind = StoreRequest::Kind::kAdd, .key = "weft/join/world/tickets", ...});
//
// Connected when it is first asked, and again after the connection has failed. Each object has a connection of its own, so that nobody
// waits for another thread's request. Its keys are those of the whole job: no start of it and no rendezvous has keys of its own here.
//
// Thread-safety: one request at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/net.h"
#include "comm/rendezvous/launch_environment.h"
#include "comm/rendezvous/remote_store.h"
#include "comm/rendezvous/store.h"

namespace weft {

class JobStore : public Store {
 public:
  static constexpr int64_t kConnectNs = 5'000'000'000;

  // Whether weftrun has started this process.
  static bool Exists();

  // INVALID_USAGE if weftrun has not started this process; errors of connecting, which may take until the request's
  // deadline but at least kConnectNs.
  StoreReply Ask(StoreRequest request) override;

  std::string Where() const override { return "weftrun's store"; }

  // Tells weftrun that this process, which it has started again as `rank`, is in the group. A failure is logged.
  void SayJoined(int rank);

 private:
  absl::Status Connect(int64_t deadline_ns);

  std::unique_ptr<RemoteStore> client_;
};

// Where weftrun's store listens, by its variables.
absl::StatusOr<Endpoint> WeftrunEndpoint(const LaunchEnvironment& launch, int64_t deadline_ns);

}  // namespace weft

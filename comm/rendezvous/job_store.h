// The store that weftrun keeps for as long as its job runs: where ranks that it has started again find the others.
//
//   JobStore& store = JobStore::Get();
//   store.Ask({.kind = StoreRequest::Kind::kAdd, .key = "weft/join/world/tickets", ...});
//
// Connected when it is first asked, and again after the connection has failed. Its keys are those of the whole job: no start of it and no
// rendezvous has keys of its own here.
//
// Thread-safety: any thread; one request at a time, the others wait for it.
#pragma once

#include <cstdint>
#include <memory>

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/net.h"
#include "comm/rendezvous/launch_environment.h"
#include "comm/rendezvous/remote_store.h"
#include "comm/rendezvous/store.h"

namespace weft {

class JobStore : public Store {
 public:
  // This process's. Never destroyed.
  static JobStore& Get();

  // Whether weftrun has started this process.
  static bool Exists();

  // INVALID_USAGE if weftrun has not started this process; errors of connecting, which may take until the request's
  // deadline but at least kConnectNs.
  StoreReply Ask(StoreRequest request) override;

  // Tells weftrun that this process, which it has started again as `rank`, is in the group. A failure is logged.
  void SayJoined(int rank);

  static constexpr int64_t kConnectNs = 5'000'000'000;

 private:
  JobStore() = default;

  absl::Status Connect(int64_t deadline_ns) WEFT_REQUIRES(mutex_);

  Mutex mutex_;
  std::unique_ptr<RemoteStore> client_ WEFT_GUARDED_BY(mutex_);
  pid_t connected_in_ WEFT_GUARDED_BY(mutex_) = -1;
};

// Where weftrun's store listens, by its variables.
absl::StatusOr<Endpoint> WeftrunEndpoint(const LaunchEnvironment& launch, int64_t deadline_ns);

}  // namespace weft

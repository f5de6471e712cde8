// A store server on a thread of this process.
//
//   WEFT_ASSIGN_OR_RETURN(std::shared_ptr<StoreHost> host, StoreHost::Start(options, &endpoints));
//   ... ranks join through the endpoints; then
//   host->Release();
//
// The thread ends when every rank has come and left; or, once all holders have released it, when no
// client is connected any more, at the latest kLingerNs later. If the process ends first, exit() waits up to kExitNs for
// clients that are still reading the last answer.
//
// Thread-safety: all members, any thread. The thread touches the server only and blocks all signals;
// a forked child has none, and no listener either.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "comm/rendezvous/store_server.h"

namespace weft {

class StoreHost {
 public:
  static constexpr int64_t kLingerNs = 30'000'000'000;
  static constexpr int64_t kExitNs = 1'000'000'000;

  // Serves on all `endpoints` (port 0 is replaced). If this process hosts the first of them already,
  // that host is taken again, with its data. SYSTEM_ERROR if an address is in use until the
  // deadline, AUTH_FAILED at once if another user has the socket's name (name_owner.h).
  static absl::StatusOr<std::shared_ptr<StoreHost>> Start(const StoreServerOptions& options,
                                                          std::vector<Endpoint>* endpoints,
                                                          int64_t deadline_ns);

  StoreHost(const StoreServerOptions& options, UniqueFd wake, UniqueFd done);

  // The caller needs it no more.
  void Release();
  // In a forked child, whose copies they are.
  void CloseListenersInChild();
  // Asks the thread to end and waits for it until the deadline; false if it still runs.
  bool Stop(int64_t deadline_ns);

 private:
  static absl::StatusOr<std::shared_ptr<StoreHost>> Listen(const StoreServerOptions& options,
                                                           std::vector<Endpoint>* endpoints,
                                                           int64_t deadline_ns);
  static absl::Status Launch(const std::shared_ptr<StoreHost>& host);
  // True if the host runs and now has one more holder.
  bool Retain();
  void Run();
  bool ShouldEnd();
  void Wake();

  std::optional<StoreServer> server_;  // the thread's, after Start
  const UniqueFd wake_;                // eventfd: the thread shall look around
  const UniqueFd done_;                // eventfd: the thread has closed everything
  std::vector<Endpoint> endpoints_;    // constant after Start
  std::vector<int> listeners_;         // handles; constant after Start
  int32_t pid_ = 0;                    // constant after Start

  Mutex mutex_;
  int holders_ WEFT_GUARDED_BY(mutex_) = 1;
  bool ending_ WEFT_GUARDED_BY(mutex_) = false;
  bool new_world_ WEFT_GUARDED_BY(mutex_) = false;         // retained: the ranks will come again
  int64_t end_by_ns_ WEFT_GUARDED_BY(mutex_) = INT64_MAX;  // even if clients are connected
};

}  // namespace weft

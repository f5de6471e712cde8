#include "comm/rendezvous/job_store.h"

#include <algorithm>
#include <utility>

#include "base/later.h"
#include "base/log.h"
#include "base/options.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {

absl::StatusOr<Endpoint> WeftrunEndpoint(const LaunchEnvironment& launch, int64_t deadline_ns) {
  WEFT_ASSIGN_OR_RETURN(Endpoint endpoint, ParseEndpoint(launch.store_address));
  if (endpoint.kind == Endpoint::Kind::kTcp) {
    WEFT_ASSIGN_OR_RETURN(endpoint.host, ResolveHost(endpoint.host, deadline_ns));
  }
  return endpoint;
}

bool JobStore::Exists() {
  const absl::StatusOr<LaunchEnvironment> launch = ReadLaunchEnvironment();
  return launch.ok() && !launch->store_address.empty();
}

absl::Status JobStore::Connect(int64_t deadline_ns) {
  WEFT_ASSIGN_OR_RETURN(const LaunchEnvironment launch, ReadLaunchEnvironment());
  if (launch.store_address.empty()) {
    return MakeError(WEFT_INVALID_USAGE,
                     "there is no store where processes that join could be met: weftrun has not "
                     "started this process; pass a store");
  }
  WEFT_ASSIGN_OR_RETURN(const Endpoint endpoint, WeftrunEndpoint(launch, deadline_ns));
  StoreClientOptions options;
  options.endpoints = {endpoint};
  options.secret = launch.secret;
  options.rank = launch.rank;
  options.size = launch.size;
  options.connect_deadline_ns = deadline_ns;
  options.host_hint = launch.launcher;
  auto client = std::make_unique<RemoteStore>(SystemSeams(), std::move(options));
  WEFT_RETURN_IF_ERROR(client->Connect());
  client_ = std::move(client);
  return absl::OkStatus();
}

StoreReply JobStore::Ask(StoreRequest request) {
  if (client_ == nullptr) {
    const int64_t deadline_ns = std::max(request.deadline_ns, Later(MonotonicNs(), kConnectNs));
    if (absl::Status connected = Connect(deadline_ns); !connected.ok()) {
      return {.status = std::move(connected)};
    }
  }
  StoreReply reply = client_->Ask(std::move(request));
  if (!reply.status.ok() && ResultOf(reply.status) != WEFT_TIMEOUT) client_.reset();
  return reply;
}

void JobStore::SayJoined(int rank) {
  const StoreReply reply =
      Ask({.kind = StoreRequest::Kind::kSet,
           .key = StrCat("join/joined/", rank, ".", GetOptions().restart_count),
           .value = "1",
           .deadline_ns = Later(MonotonicNs(), kConnectNs)});
  if (!reply.status.ok()) {
    LogWarn("weftrun may take this process for one that still waits to join: ",
            FromAbsl(reply.status.message()));
  }
}

}  // namespace weft

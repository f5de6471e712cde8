// Sets a key in the store of the weftrun that started this process, as the library of a rank would:
//
//   set_store_key join/joined/1.1
#include <cstdio>
#include <string>

#include "base/net.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/rendezvous/launch_environment.h"
#include "comm/rendezvous/remote_store.h"
#include "tests/comm/rendezvous/store_calls.h"

namespace {

absl::Status SetKey(const char* key) {
  WEFT_ASSIGN_OR_RETURN(const weft::LaunchEnvironment launch, weft::ReadLaunchEnvironment());
  WEFT_ASSIGN_OR_RETURN(const weft::Endpoint endpoint, weft::ParseEndpoint(launch.store_address));
  const int64_t deadline_ns = weft::MonotonicNs() + 60'000'000'000;
  weft::StoreClientOptions options;
  options.endpoints = {endpoint};
  options.secret = launch.secret;
  options.rank = launch.rank;
  options.size = launch.size;
  options.connect_deadline_ns = deadline_ns;
  options.host_hint = "weftrun";
  weft::RemoteStore store(weft::SystemSeams(), options);
  return weft::Set(store, key, "", deadline_ns);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const absl::Status status = SetKey(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}

#include "comm/rendezvous/pmi_id.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "base/interfaces.h"
#include "base/mutex.h"
#include "base/net.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/rendezvous/master_endpoints.h"
#include "comm/rendezvous/pmi_client.h"

namespace weft {
namespace {

// What rank 0 publishes if it has nothing better, so that the others need not wait for a deadline.
constexpr std::string_view kFailed = "failed";

std::string ToHex(const weft_unique_id_t& id) {
  return absl::BytesToHexString(absl::string_view(id.internal, sizeof(id.internal)));
}

absl::StatusOr<UniqueId> FromHex(std::string_view text) {
  if (text == kFailed) {
    return MakeError(WEFT_REMOTE_ERROR, "rank 0 could not open the store; its message says why");
  }
  const bool hex =
      std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isxdigit(c); });
  if (!hex || text.size() != 2 * sizeof(weft_unique_id_t::internal)) {
    return MakeError(WEFT_CORRUPT,
                     StrCat("rank 0 published ", text.size(),
                            " letters that are no unique id; do all ranks run the same weft?"));
  }
  const std::string bytes = absl::HexStringToBytes(ToAbsl(text));
  weft_unique_id_t id;
  std::copy(bytes.begin(), bytes.end(), id.internal);
  return DecodeUniqueId(id);
}

absl::StatusOr<ServedId> Serve(const LaunchEnvironment& launch, int64_t deadline_ns) {
  Endpoint tcp{.kind = Endpoint::Kind::kTcp, .port = static_cast<uint16_t>(launch.master_port)};
  if (launch.master_host.empty()) {
    WEFT_ASSIGN_OR_RETURN(const OwnAddresses own, AddressesForOthers());
    if (!own.rails.empty()) tcp.host = own.rails.front();
  } else {
    WEFT_ASSIGN_OR_RETURN(tcp.host, ResolveHost(launch.master_host, deadline_ns));
    // The others are told one address: that at which they reach this machine, if there is such a one.
    WEFT_ASSIGN_OR_RETURN(const std::vector<Endpoint> endpoints,
                          MasterEndpoints({"MASTER_ADDR", launch.master_host}, tcp.host, tcp.port));
    tcp = endpoints.back();
  }
  // Without waiting for an address in use: the others are to hear of it.
  return ServeUniqueId(tcp, launch.secret, MonotonicNs());
}

// The others' "" is not looked at.
absl::StatusOr<UniqueId> Publish(const LaunchEnvironment& launch, const std::string& value,
                                 int64_t deadline_ns) {
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<PmiClient> pmi,
                        PmiClient::Start(launch.pmi_fd, deadline_ns));
  WEFT_ASSIGN_OR_RETURN(const std::string published,
                        pmi->PublishFromRankZero(launch.rank, value, deadline_ns));
  return FromHex(published);
}

absl::StatusOr<ServedId> Converse(const LaunchEnvironment& launch, int64_t deadline_ns) {
  if (launch.rank != 0) {
    WEFT_ASSIGN_OR_RETURN(UniqueId id, Publish(launch, "", deadline_ns));
    return ServedId{.id = std::move(id)};
  }
  absl::StatusOr<ServedId> served = Serve(launch, deadline_ns);
  if (!served.ok()) {
    Publish(launch, std::string(kFailed), deadline_ns).status().IgnoreError();
    return served.status();
  }
  const absl::StatusOr<weft_unique_id_t> bytes = EncodeUniqueId(served->id);
  const std::string value = bytes.ok() ? ToHex(*bytes) : std::string(kFailed);
  absl::Status status = Publish(launch, value, deadline_ns).status();
  if (!bytes.ok()) status = bytes.status();
  if (!status.ok()) {
    served->host->Release();
    return status;
  }
  return served;
}

}  // namespace

bool NeedsPmi(const LaunchEnvironment& launch) {
  return launch.pmi_fd >= 0 && !launch.single_node && launch.size > 1 &&
         (launch.master_host.empty() || launch.master_port == 0);
}

absl::StatusOr<ServedId> IdThroughPmi(const LaunchEnvironment& launch, int64_t deadline_ns) {
  static Mutex& mutex = *new Mutex;
  static std::optional<absl::StatusOr<UniqueId>> remembered;
  MutexLock lock(mutex);  // one conversation at a time
  if (remembered.has_value()) {
    WEFT_RETURN_IF_ERROR(remembered->status());
    return ServedId{.id = **remembered};
  }
  absl::StatusOr<ServedId> pmi = Converse(launch, deadline_ns);
  if (!pmi.ok()) {
    remembered = Annotate(
        pmi.status(),
        StrCat("rank ", launch.rank,
               " could not agree with the others through PMI-1 (PMI_FD=", launch.pmi_fd,
               ") on where rank 0 listens; MASTER_ADDR, MASTER_PORT and WEFT_JOB_SECRET_FILE on "
               "every rank do without it: "));
    return remembered->status();
  }
  remembered = pmi->id;
  return pmi;
}

}  // namespace weft

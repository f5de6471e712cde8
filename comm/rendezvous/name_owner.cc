#include "comm/rendezvous/name_owner.h"

#include <cstdint>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/new_fd.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

constexpr int64_t kSayNs = 1'000'000'000;
constexpr int64_t kUnknownNs = 2'000'000'000;

constexpr const char* kAdvice =
    "; start the ranks with weftrun, which serves the store under a name that nobody can know, or "
    "give the job another MASTER_PORT or job id";

// Who listens there, as the kernel tells whoever connects; pid -1 if nobody takes connections.
PeerIdentity ListenerOf(const Endpoint& endpoint) {
  Net& net = *SystemSeams().net;
  const absl::StatusOr<int> stream = net.Connect(endpoint);
  if (!stream.ok()) return {};
  const PeerIdentity owner = net.Peer(*stream);
  net.Close(*stream);
  return owner;
}

// Abstract names stand at the end of their line, with an @ for the NUL.
bool IsBound(const Endpoint& endpoint) {
  const std::string name = StrCat(" @", endpoint.host);
  const UniqueFd fd = OpenFile("/proc/net/unix", O_RDONLY);
  if (!fd.valid()) return false;
  const std::string sockets = ReadFile(fd.get(), SIZE_MAX, "reading /proc/net/unix").value_or("");
  for (const absl::string_view line : absl::StrSplit(sockets, '\n')) {
    if (absl::EndsWith(line, name)) return true;
  }
  return false;
}

}  // namespace

NameOwner::NameOwner(const Endpoint& endpoint) : endpoint_(endpoint), start_ns_(MonotonicNs()) {}

absl::Status NameOwner::Look() {
  if (endpoint_.kind != Endpoint::Kind::kUnix) return absl::OkStatus();
  const PeerIdentity owner = ListenerOf(endpoint_);
  const int64_t waited_ns = MonotonicNs() - start_ns_;
  if (owner.uid >= 0 && owner.uid != geteuid()) return Foreign(owner);
  if (owner.pid >= 0) {
    if (owner.pid != getpid() && waited_ns >= kSayNs && !said_) {
      said_ = true;
      LogWarn("store: the name ", endpoint_.ToString(), " is held by process ", owner.pid,
              " of this user, perhaps another job of the same name; waiting until it ends",
              kAdvice);
    }
    return absl::OkStatus();
  }
  if (waited_ns < kUnknownNs || !IsBound(endpoint_)) return absl::OkStatus();
  return MakeError(WEFT_SYSTEM_ERROR,
                   StrCat("could not host the store at ", endpoint_.ToString(),
                          ": a process that accepts no connections holds this name, and so the "
                          "system does not tell whose it is",
                          kAdvice));
}

absl::Status NameOwner::Foreign(const PeerIdentity& owner) const {
  return MakeError(
      WEFT_AUTH_FAILED, {.pid = static_cast<int32_t>(owner.pid)},
      StrCat("could not host the store at ", endpoint_.ToString(), ": process ", owner.pid,
             " of user ", owner.uid, " holds this name, and this is user ", geteuid(), kAdvice));
}

}  // namespace weft

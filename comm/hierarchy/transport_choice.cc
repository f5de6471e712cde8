#include "comm/hierarchy/transport_choice.h"

#include <utility>

#include "base/log.h"
#include "base/options.h"
#include "base/status.h"
#include "comm/transport/ucx/rdma_devices.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kTcp = "tcp";
constexpr const char* kUcx = "ucx";

// Never shared memory: ranks that share it do not talk by this.
std::string UcxTransports(bool rdma, bool rdma_only) {
  const char* const said = EnvironmentValue("UCX_TLS");
  if (said != nullptr && *said != '\0') return "";
  if (!rdma) return "tcp";
  return rdma_only ? kUcxRdmaTransports : fmt::format("{},tcp", kUcxRdmaTransports);
}

std::string NameOf(const GroupMember& member) {
  return fmt::format("rank {} on {}", member.rank,
                     member.host.empty() ? "an unknown host" : member.host);
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxPort>> OfferTransports(const std::string& wish,
                                                         GroupMember* self) {
  self->transport = wish.empty() ? kAuto : wish;
  if (self->transport == kTcp) return nullptr;
  const bool wants_ucx = self->transport == kUcx;
  if (!wants_ucx && self->transport != kAuto) {
    return MakeError(
        WEFT_INVALID_ARGUMENT,
        fmt::format("WEFT_TRANSPORT={} is not one of auto, tcp, ucx", self->transport));
  }
  const bool rdma = HasRdmaDevice();
  if (!wants_ucx && !rdma) return nullptr;
  absl::StatusOr<std::unique_ptr<UcxPort>> port =
      UcxPort::Open({.transports = UcxTransports(rdma, /*rdma_only=*/!wants_ucx)});
  if (!port.ok()) {
    self->ucx_refusal = std::string(port.status().message());
    return nullptr;
  }
  self->ucx = (*port)->address();
  return port;
}

absl::StatusOr<bool> AgreeOnUcx(const Membership& membership, std::string_view group) {
  const GroupMember& first = membership.members.front();
  for (const GroupMember& member : membership.members) {
    if (member.transport == first.transport) continue;
    return MakeError(
        WEFT_INVALID_ARGUMENT, {.rank = member.rank, .group = std::string(group)},
        fmt::format("group {}: WEFT_TRANSPORT is {} for {} and {} for {}; set the same "
                    "everywhere",
                    group, first.transport, NameOf(first), member.transport, NameOf(member)));
  }
  if (first.transport == kTcp) return false;
  for (const GroupMember& member : membership.members) {
    if (!member.ucx.empty()) continue;
    if (first.transport == kUcx) {
      return MakeError(WEFT_UNSUPPORTED, {.rank = member.rank, .group = std::string(group)},
                       fmt::format("group {}: WEFT_TRANSPORT=ucx, but for {}: {}", group,
                                   NameOf(member), member.ucx_refusal));
    }
    if (!first.ucx.empty() || !member.ucx_refusal.empty()) {
      LogInfo("group ", group, ": data goes over TCP, as ", NameOf(member), " has no UCX: ",
              member.ucx_refusal.empty() ? "it has no RDMA adapter" : member.ucx_refusal);
    }
    return false;
  }
  return true;
}

}  // namespace weft

// By what ranks of different nodes talk: TCP, or UCX where all can.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<UcxPort> port, OfferTransports(GetOptions().transport, &self));     // before they meet
//   WEFT_ASSIGN_OR_RETURN(const bool ucx, AgreeOnUcx(membership, "world"));                        // afterwards: the same on all
//
// Thread-safety: any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "comm/rendezvous/membership.h"
#include "comm/transport/ucx/ucx_port.h"

namespace weft {

// Writes into `self` what this rank wants, by WEFT_TRANSPORT (auto, tcp, ucx; "" is auto), and what it can. Returns its port, nullptr if it has
// none: that it has none though it is asked for is for all to hear. INVALID_ARGUMENT for another wish.
absl::StatusOr<std::unique_ptr<UcxPort>> OfferTransports(const std::string& wish,
                                                         GroupMember* self);

// Whether data goes over UCX, by what all have said, so with the same answer on all ranks. INVALID_ARGUMENT if they want different things;
// UNSUPPORTED if UCX is wanted and a rank cannot, with its reason.
absl::StatusOr<bool> AgreeOnUcx(const Membership& membership, std::string_view group);

}  // namespace weft

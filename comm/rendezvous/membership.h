// Who is in a group and where each rank lives, agreed through a store.
//
//   WEFT_ASSIGN_OR_RETURN(Membership members,
//                         ExchangeMembership(store, "world", rank, size, self, deadline_ns));
//
// Every rank writes its own line; rank 0 reads all of them. A rank number used twice, or a line of
// another version, is an error that names both; a rank that has come and whose process then ends is
// named within about a second; at the deadline the missing ranks are listed.
// Thread-safety: the store's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/wire.h"
#include "comm/rendezvous/store.h"

namespace weft {

class MemberWatch;

struct GroupMember {
  int32_t rank = -1;
  int32_t world_rank =
      -1;  // that it had when its job began, or of the rank that it takes the place of
  int32_t pid = 0;
  uint64_t start_time = 0;     // field 22 of /proc/<pid>/stat: tells a reused pid
  std::string host;            // for messages
  uint64_t pid_namespace = 0;  // pids mean the same where it is the same; 0: not known
  uint64_t network_namespace =
      0;                    // abstract unix sockets are found where it is the same; 0: not known
  uint32_t uid = 0;         // effective
  std::string boot_id;      // equal: probably the same machine; proven by mapping memory
  std::string node_socket;  // abstract unix socket of the rank's process, without the leading NUL
  int32_t fake_node = -1;   // WEFT_FAKE_NODES; -1: none
  std::string agent;        // where other islands reach its agent (Endpoint::ToString); "": nowhere
  std::vector<std::string> data;  // and where data for it goes, by rail
  std::string choice;             // how these addresses were chosen, for messages (OwnAddresses)
  std::string transport;          // by what it wants to talk to other islands: WEFT_TRANSPORT
  std::string ucx;                // the address of its port there, UCX's; "": it has none
  std::string ucx_refusal;        // and why, if it is wanted
  std::string
      link_secret;  // of links between ranks, if this is rank 0; only those who may use the store read it
};

struct Membership {
  uint64_t group_id = 0;             // random, the same on all ranks
  std::vector<GroupMember> members;  // by rank
};

// Those of `ranks`, in that order, with their places in it as ranks.
std::vector<GroupMember> Renumbered(const std::vector<GroupMember>& members,
                                    const std::vector<int>& ranks);

// This process: pid, start time, host, boot id, namespaces, user; its world rank is its rank. `node_socket` is left empty.
GroupMember DescribeSelf(int rank);

// All but its rank, for lines in a store.
void WriteMember(const GroupMember& member, WireWriter& writer);
void ReadMember(WireReader& reader, GroupMember& member);

// `watch` gets the members as they become known; what it finds ends the exchange on all ranks.
absl::StatusOr<Membership> ExchangeMembership(Store& store, std::string_view group_name, int rank,
                                              int size, const GroupMember& self,
                                              int64_t deadline_ns, MemberWatch& watch);

// Removes what this rank wrote for the exchange, so that the store does not grow with every group, and the name may be used
// again. Only when all ranks have ended their exchange: a rank that is late would wait in vain for what it has not read. A
// store that fails, or does not answer soon, keeps the rest; that is logged.
void RemoveMembership(Store& store, std::string_view group_name, int rank, int size);

}  // namespace weft

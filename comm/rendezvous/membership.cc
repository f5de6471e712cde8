#include "comm/rendezvous/membership.h"

#include <optional>

#include "base/proc.h"
#include "base/seams.h"
#include "comm/rendezvous/membership_exchange.h"

namespace weft {

Member DescribeSelf(int rank) {
  SystemProc proc;
  const ProcessIdentity self = proc.Self();
  Member member;
  member.rank = rank;
  member.pid = self.pid;
  member.start_time = self.start_time;
  member.host = self.host;
  member.boot_id = self.boot_id;
  return member;
}

absl::StatusOr<Membership> ExchangeMembership(Store& store, std::string_view group_name, int rank,
                                              int size, const Member& self, int64_t deadline_ns) {
  MembershipExchange exchange(SystemSeams(), group_name, rank, size, self, deadline_ns);
  while (std::optional<StoreRequest> request = exchange.Next()) {
    exchange.Take(Perform(store, *request));
  }
  return exchange.result();
}

}  // namespace weft

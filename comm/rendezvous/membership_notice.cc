// What a rank says of a long wait for the others.
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/rendezvous/membership_exchange.h"

namespace weft {

// Rank 0 knows who is missing; the others have to look.
void MembershipExchange::NoteLongWait() {
  const bool collects = phase_ == Phase::kCollect || phase_ == Phase::kScan;
  const bool waits = phase_ == Phase::kLeader || phase_ == Phase::kVerdict;
  if ((!collects && !waits) || (size_ > kSpeakersEvery && rank_ % kSpeakersEvery != 0)) return;
  const int64_t waited_s = notices_.Due(seams_.clock->NowNs());
  if (waited_s == 0) return;
  if (collects) {
    notice_ = Notice{waited_s, unread_, false};
    return;
  }
  waited_s_ = waited_s;
  roll_call_ = RollCall(rank_, size_);
  called_in_ = phase_;
  phase_ = Phase::kRollCall;
}

void MembershipExchange::TakeRollCall(const StoreReply& reply) {
  roll_call_.Take(reply.status.ok());
  if (!roll_call_.done()) return;
  phase_ = called_in_;
  notice_ = Notice{waited_s_, roll_call_.missing(), roll_call_.more()};
}

std::optional<std::string> MembershipExchange::TakeNotice(std::string_view where) {
  if (!notice_.has_value()) return std::nullopt;
  const Notice notice = *std::exchange(notice_, std::nullopt);
  const std::string waited =
      StrCat("group ", group_, ": rank ", rank_, " has waited ", notice.waited_s, " s for ");
  if (notice.missing.empty()) {
    const std::string leader =
        known_.empty() ? ""
                       : StrCat(" (pid ", known_.front().pid, " on ", known_.front().host, ")");
    return StrCat(waited, "rank 0", leader, " to confirm that all ", size_,
                  " ranks have come, which they have; it is stopped or overloaded");
  }
  return StrCat(waited, notice.more ? "at least " : "", RanksText(notice.missing), " of ", size_,
                notice.missing.size() == 1 ? ", which has" : ", which have", " not come to ", where,
                "; check that ", notice.missing.size() == 1 ? "it was" : "they were",
                " started, with the same job and size");
}

}  // namespace weft

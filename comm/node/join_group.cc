// A newcomer has the group when all ranks that live have it, and not when it has mapped their memory: they may drop it still. They meet once
// more when they have decided; a group that was dropped ends there for the newcomer, because its ranks have left.
#include "comm/node/join_group.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/notice_times.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/node/make_group.h"
#include "comm/rendezvous/membership.h"
#include "comm/rendezvous/newcomer_queue.h"
#include "comm/rendezvous/prefix_store.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr int64_t kSliceNs = 200'000'000;
constexpr int64_t kEnterNs = 5'000'000'000;  // for a store to answer

// What another attempt may not meet with.
bool MayPass(const absl::Status& failure) {
  const weft_result_t result = ResultOf(failure);
  return result == WEFT_PEER_LOST || result == WEFT_TIMEOUT || result == WEFT_REMOTE_ERROR ||
         result == WEFT_ABORTED;
}

class Newcoming {
 public:
  Newcoming(Store& store, const GroupOptions& options, int world_rank)
      : store_(store),
        options_(options),
        queue_(store, options.name),
        self_(DescribeSelf(0)),
        start_ns_(MonotonicNs()),
        deadline_ns_(InitDeadlineNs(options)) {
    self_.world_rank = world_rank;
  }

  absl::StatusOr<std::shared_ptr<ProcessGroup>> Run() {
    while (true) {
      WEFT_ASSIGN_OR_RETURN(const Admission admission, AwaitAdmission());
      absl::StatusOr<std::shared_ptr<ProcessGroup>> joined = Meet(admission);
      if (joined.ok()) return joined;
      last_ = joined.status();
      // Else its ranks would wait for this process until their deadline.
      CallOff(store_, admission.meeting, MonotonicNs() + kSliceNs);
      if (!MayPass(last_) || MonotonicNs() >= deadline_ns_) {
        return Annotate(last_, Heading());
      }
      LogInfo(Heading(), FromAbsl(last_.message()), "; waiting for the next attempt of its ranks");
    }
  }

 private:
  std::string Heading() const { return StrCat("joining group ", options_.name, ": "); }

  absl::StatusOr<Admission> AwaitAdmission() {
    WEFT_ASSIGN_OR_RETURN(const int64_t ticket,
                          queue_.Enter(self_, std::min(deadline_ns_, MonotonicNs() + kEnterNs)));
    NoticeTimes notices(MonotonicNs());
    while (true) {
      const int64_t now_ns = MonotonicNs();
      if (const int64_t waited_s = notices.Due(now_ns); waited_s > 0) {
        LogWarn(Heading(), "this process has waited ", waited_s, " s in ", store_.Where(),
                " for its ranks to take it in; they do by weft_group_reconfigure, with "
                "WEFT_NEW_RANK among the members");
      }
      auto admission = queue_.Await(ticket, std::min(deadline_ns_, now_ns + kSliceNs));
      if (admission.ok() && admission->has_value()) return **std::move(admission);
      absl::Status why = admission.status();
      if (why.ok()) why = CheckInterrupt(StrCat("joining group ", options_.name));
      if (why.ok() && now_ns >= deadline_ns_) why = TooLate();
      if (why.ok()) continue;
      if (const auto late = queue_.GiveUp(ticket); late.has_value()) {
        CallOff(store_, late->meeting, MonotonicNs() + kSliceNs);
      }
      return why;
    }
  }

  absl::StatusOr<std::shared_ptr<ProcessGroup>> Meet(const Admission& admission) {
    if (admission.size < 2 || admission.size > kNodeRanksMax) {
      return MakeError(WEFT_UNSUPPORTED, StrCat("it is to have ", admission.size,
                                                " ranks; this version has groups of 1 "
                                                "to ",
                                                kNodeRanksMax));
    }
    GroupOptions options = options_;
    options.name = admission.group_name;
    const MeetingPlace place{.rank = admission.rank,
                             .size = admission.size,
                             .epoch = admission.epoch,
                             .world_rank = admission.world_rank,
                             .world_name = admission.world_name,
                             .watched = {admission.by},
                             .called_off = [&] {
                               return CalledOff(admission);
                             }};
    PrefixStore meeting(store_, admission.meeting);
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> group,
                          MeetInStore(meeting, place, options, deadline_ns_));
    const absl::Status all_have_it = AwaitAll(*group, deadline_ns_);
    if (all_have_it.ok()) return group;
    group->Close();
    return Annotate(all_have_it, "waiting for its ranks to agree on it: ");
  }

  absl::Status CalledOff(const Admission& admission) {
    if (!IsCalledOff(store_, admission.meeting)) return absl::OkStatus();
    return MakeError(WEFT_REMOTE_ERROR, {.group = options_.name},
                     "its ranks have given up taking this process in; their own errors say why");
  }

  absl::Status TooLate() const {
    const double seconds = static_cast<double>(MonotonicNs() - start_ns_) * 1e-9;
    std::string last;
    if (!last_.ok()) last = StrCat("; the last attempt failed: ", FromAbsl(last_.message()));
    return MakeError(
        WEFT_TIMEOUT, {.group = options_.name},
        fmt::format("{}its ranks have not taken this process in within {:.1f} s; they do by "
                    "weft_group_reconfigure, with WEFT_NEW_RANK among the members{}",
                    Heading(), seconds, last));
  }

  Store& store_;
  const GroupOptions& options_;
  NewcomerQueue queue_;
  GroupMember self_;
  const int64_t start_ns_;
  const int64_t deadline_ns_;
  absl::Status last_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<ProcessGroup>> JoinNodeGroup(Store& store,
                                                            const GroupOptions& options,
                                                            int world_rank) {
  return Newcoming(store, options, world_rank).Run();
}

}  // namespace weft

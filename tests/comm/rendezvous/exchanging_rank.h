// One rank that joins a store and exchanges membership, as one state machine for tests.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/rendezvous/membership_exchange.h"
#include "comm/rendezvous/store_client.h"

namespace weft::test {

inline GroupMember TestMember(int rank, int pid) {
  GroupMember member;
  member.rank = rank;
  member.pid = pid;
  member.start_time = static_cast<uint64_t>(pid) * 7;
  member.host = "host" + std::to_string(pid);
  member.boot_id = "boot";
  member.node_socket = "socket" + std::to_string(rank);
  return member;
}

class ExchangingRank {
 public:
  ExchangingRank(const Seams& seams, StoreClientOptions options, int size, int pid,
                 int64_t deadline_ns)
      : clock_(seams.clock),
        rank_(options.rank),
        exchange_(seams, "world", options.rank, size, TestMember(options.rank, pid), deadline_ns) {
    options.size = size;
    client_.emplace(seams, std::move(options));
    Ask();
  }

  // Who knows of the members' processes; a driver over a blocking store looks itself.
  void WatchBy(std::function<bool(const GroupMember&)> ended) { ended_ = std::move(ended); }

  // Its program is interrupted then.
  void GiveUpAt(int64_t ns) { gives_up_ns_ = ns; }

  void Step() {
    if (!client_) return;
    client_->Step();
    while (client_->done()) {
      exchange_.Take(client_->TakeReply());
      if (auto notice = exchange_.TakeNotice(client_->Where())) notices_.push_back(*notice);
      LoseWhoHasEnded();
      if (clock_->NowNs() >= gives_up_ns_) {
        exchange_.GiveUp(
            MakeError(WEFT_ABORTED, {.rank = rank_}, "rank " + std::to_string(rank_) + " gave up"));
      }
      if (exchange_.finished()) {
        client_.reset();  // leaves
        return;
      }
      Ask();
      client_->Step();
    }
  }

  int64_t NextWakeNs() const { return client_ ? client_->NextWakeNs() : INT64_MAX; }

  void AppendPollItems(std::vector<PollItem>* items) const {
    if (client_) client_->AppendPollItems(items);
  }

  // What it has said of its long wait.
  const std::vector<std::string>& notices() const { return notices_; }

  bool finished() const { return exchange_.finished(); }

  const absl::StatusOr<Membership>& result() const { return exchange_.result(); }

 private:
  void LoseWhoHasEnded() {
    for (const GroupMember& member : exchange_.known()) {
      if (!ended_ || !ended_(member)) continue;
      exchange_.Lose(MakeError(WEFT_PEER_LOST, {.rank = member.rank, .pid = member.pid},
                               "rank " + std::to_string(member.rank) + " has ended"));
      return;
    }
  }

  void Ask() {
    if (std::optional<StoreRequest> request = exchange_.Next()) client_->Start(*request);
  }

  Clock* const clock_;
  const int rank_;
  int64_t gives_up_ns_ = INT64_MAX;
  std::function<bool(const GroupMember&)> ended_;
  MembershipExchange exchange_;
  std::vector<std::string> notices_;
  std::optional<StoreClient> client_;
};

}  // namespace weft::test

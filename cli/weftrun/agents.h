// What the weftruns of several nodes tell each other, so that they begin and end together: in each round (one start of all ranks)
// that they are there and with how many ranks, that one has failed, that all are done.
//
//   Agents agents(options, plan);
//   WEFT_RETURN_IF_ERROR(agents.Open());
//   agents.BeginRound(0);
//   while (!agents.may_start()) { poll agents.AppendPollItems() until NextWakeNs(); agents.Step(); }
//   agents.place().first_rank ...
//
// They talk through the job's store, which node 0's weftrun hosts here for all rounds. Keys begin with
// "weftrun/<round>/": here/<node>, ready/<node>, go/<node>, done/<node>, verdict. Node 0 waits for each node's ready, which says how many
// ranks that has, before it sets each one's go, which says what numbers they get; and for each node's done before it sets a verdict
// of success. A verdict of failure is set by whoever failed, and by node 0 for a weftrun whose connection has ended though its ranks
// were not done. Everybody waits for the verdict of the round from its beginning.
//
// A node whose own cable is out cannot tell by a connection on which nothing is sent: the kernel does not count probes that never
// left. So the other nodes say something each second, and end if node 0's machine does not acknowledge it; its weftrun may be stopped.
//
// Thread-safety: owned by one thread; nothing waits. Owns its sockets.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/net.h"
#include "cli/weftrun/job_plan.h"
#include "cli/weftrun/run_options.h"
#include "comm/rendezvous/store_client.h"
#include "comm/rendezvous/store_server.h"

namespace weft {

// How a round ended, the same on all nodes.
struct RoundEnd {
  int exit_code = 0;     // 0: the ranks of all nodes ended well
  bool restart = false;  // of a failure: all may start again
  bool asked =
      false;  // a rank ended because it was asked to: the others may take their time, and do not start again
  std::string reason;  // of a failure: "rank 3 on node 1 killed by signal 9 (SIGKILL)"
};

class Agents {
 public:
  // The others have so long to end their ranks and come to the next round; to the first one as long as an operation.
  static constexpr int64_t kReadyNs = 60'000'000'000;

  static constexpr int64_t kBeatNs = 1'000'000'000;
  static constexpr int64_t kUnansweredNs = 5'000'000'000;

  Agents(const RunOptions& options, const JobPlan& plan);
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  // Node 0: opens the store.
  absl::Status Open();

  StoreServer* store() { return store_.get(); }  // nullptr on other nodes

  // No rank of this node runs. All nodes wait for each other.
  void BeginRound(int round);

  // The ranks of all nodes may start, and place() is known.
  bool may_start() const { return stage_ == Stage::kRunning; }

  const NodePlace& place() const { return place_; }

  // Whom this node waits for before it may start: "the weftruns of nodes 1, 3 of 4".
  std::string Missing() const;
  // The same as a sentence, with where they meet, or what calling node 0 was answered.
  std::string Waiting(int64_t waited_s) const;

  // The ranks of this node have ended: well, or with the failure of one, or are to because one was asked to end.
  void SayDone();
  void SayFailed(const RoundEnd& verdict);

  const std::optional<RoundEnd>& verdict() const { return verdict_; }

  // True when all that this node said has been heard: of a failure when the verdict has come, as whether there is a next round is
  // known only then.
  bool heard() const {
    return script_.empty() && (!asking_ || beating_) && (!said_failed_ || verdict_.has_value());
  }

  // Why there will be no verdict, or Ok.
  const absl::Status& failure() const { return failure_; }

  // Node 0's: all other nodes have come to this round and let go of it, so they know how it ended.
  bool AllLeft() const;

  // No more rounds: lets go of the store.
  void Leave();

  void AppendPollItems(std::vector<PollItem>* items) const;
  int64_t NextWakeNs() const;
  void Step();

 private:
  enum class Stage { kGathering, kRunning };

  std::unique_ptr<StoreClient> NewClient(int32_t label = -1) const;
  int32_t LabelOf(int node) const;
  std::string Key(std::string_view what) const;
  int64_t GatherNs() const;
  bool FoundNode0() const;
  void Wait(std::string_view what, int64_t deadline_ns);
  void Set(std::string_view what, std::string value);
  void Fail(const absl::Status& status, std::string_view doing);
  bool MayBeat() const;
  void StepListener();
  void StepSpeaker();
  void TakeHeard(const StoreReply& reply);
  void TakeReady(const std::string& value);
  void TakeGo(const std::string& value);
  void FindLostNodes();
  void Refuse(std::string reason);

  const int node_rank_;
  const int ranks_per_node_;
  const int node_count_;
  const std::string master_;  // its name
  Endpoint endpoint_;
  const std::string secret_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<StoreClient> listener_;  // waits for the verdict
  std::unique_ptr<StoreClient> speaker_;   // does the script
  std::deque<StoreRequest> script_;
  bool said_failed_ = false;  // in this round
  bool asking_ = false;       // the speaker has a request
  bool beating_ = false;      // it says no more than that this node is there
  int64_t beat_ns_ = 0;       // when it shall next
  StoreRequest asked_;        // the last one
  std::set<int32_t>
      gone_;  // node 0's: labels of this round, and of the next one, whose connections have ended
  std::vector<int> ranks_of_;  // node 0's: of the nodes that are ready, in order
  NodePlace place_;
  Stage stage_ = Stage::kGathering;
  int round_ = 0;
  std::optional<RoundEnd> verdict_;
  absl::Status failure_;
};

}  // namespace weft

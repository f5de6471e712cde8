// What the weftruns of several nodes tell each other, so that they restart together: in each round
// (one start of all ranks) that all are ready, that one has failed, that all are done.
//
//   Agents agents(options, plan);
//   WEFT_RETURN_IF_ERROR(agents.Open());
//   agents.BeginRound(0);
//   while (!agents.verdict()) { poll agents.AppendPollItems() until NextWakeNs(); agents.Step(); }
//
// They talk through the job's store, which node 0's weftrun hosts here for all rounds. Keys begin with
// "weftrun/<round>/": ready/<node>, go, done/<node>, verdict. Node 0 waits for each node's ready before
// it sets go, and for each node's done before it sets a verdict of success; a verdict of failure is set
// by whoever failed. Everybody waits for the verdict of the round from its beginning.
//
// Thread-safety: owned by one thread; nothing waits. Owns its sockets.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
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
  std::string reason;    // of a failure: "rank 3 on node 1 killed by signal 9 (SIGKILL)"
};

class Agents {
 public:
  // The others have so long to end their ranks and come to the next round.
  static constexpr int64_t kReadyNs = 60'000'000'000;

  Agents(const RunOptions& options, const JobPlan& plan);
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  // Node 0: opens the store.
  absl::Status Open();

  StoreServer* store() { return store_.get(); }  // nullptr on other nodes

  // No rank of this node runs. From the second round on all nodes wait for each other.
  void BeginRound(int round);

  // The ranks of all nodes may start.
  bool may_start() const { return stage_ != Stage::kGathering; }

  // The ranks of this node have ended: well, or with the failure of one.
  void SayDone();
  void SayFailed(const RoundEnd& verdict);

  const std::optional<RoundEnd>& verdict() const { return verdict_; }

  // True when all that this node said has been heard.
  bool heard() const { return script_.empty() && !asking_; }

  // Why there will be no verdict, or Ok.
  const absl::Status& failure() const { return failure_; }

  // No more rounds: lets go of the store.
  void Leave();

  void AppendPollItems(std::vector<PollItem>* items) const;
  int64_t NextWakeNs() const;
  void Step();

 private:
  enum class Stage { kGathering, kRunning };

  std::unique_ptr<StoreClient> NewClient() const;
  std::string Key(std::string_view what) const;
  void Wait(std::string_view what, int64_t deadline_ns);
  void Set(std::string_view what, std::string value);
  void Fail(const absl::Status& status, std::string_view doing);

  const int node_rank_;
  const int node_count_;
  Endpoint endpoint_;
  const std::string secret_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<StoreClient> listener_;  // waits for the verdict
  std::unique_ptr<StoreClient> speaker_;   // does the script
  std::deque<StoreRequest> script_;
  bool asking_ = false;  // the speaker has a request
  Stage stage_ = Stage::kRunning;
  int round_ = 0;
  std::optional<RoundEnd> verdict_;
  absl::Status failure_;
};

}  // namespace weft

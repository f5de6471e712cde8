// What --elastic has to know of a job's processes: whether enough are left, whether a lost rank is started again, and
// which newcomers wait.
//
//   if (elastic.EnoughLeft()) ...                       // a rank has failed: the others go on
//   const bool again = elastic.TakeRestart();
//   Say(elastic.LostText(rank, again));
//   for (const Rank* rank : elastic.TakeJoined(store)) ...
//
// A newcomer is a process of a rank that was started alone, in place of one that was lost. It waits until the group that
// runs has taken it in; then its library sets a key in the job's store. Until then nobody counts on it: it is not among the ranks
// that are left, and its end is no failure of the job. If all others end it gets kGiveUpNs, in case that it was taken in at the
// last moment, and is given up.
//
// Thread-safety: one thread. Borrows the options, the processes and the store.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "cli/weftrun/rank.h"
#include "cli/weftrun/run_options.h"
#include "comm/rendezvous/store_server.h"

namespace weft {

class ElasticRanks {
 public:
  static constexpr int64_t kGiveUpNs = 2'000'000'000;

  // `ranks`: all processes of the job, those that have ended included.
  ElasticRanks(const RunOptions& options, std::deque<Rank>* ranks)
      : options_(options), ranks_(*ranks) {}

  // How many ranks the job has that have not failed.
  int left_count() const;

  // --min-ranks are left.
  bool EnoughLeft() const { return left_count() >= options_.ranks_min; }

  // Whether a rank that was lost shall be started again: if so, that is one of --max-restarts. Not when nobody is left whom it
  // could join.
  bool TakeRestart();

  // "rank 2 (pid 4711) killed by signal 9 (SIGKILL) and is lost; 3 of 4 ranks are left; starting it again (1 of at most 3)".
  // `again`: what TakeRestart() said.
  std::string LostText(const Rank& lost, bool again) const;

  // Newcomers that have joined since the last call.
  std::vector<const Rank*> TakeJoined(const StoreServer& store);

  // Newcomers to be ended now, because all others have ended and their time is over. Each once.
  std::vector<const Rank*> TakeGivenUp(int64_t now_ns);

  // When that is to be called again at the latest; INT64_MAX: when something happens.
  int64_t give_up_ns() const { return give_up_ns_; }

  // "4 of 4 ranks ended well; lost: rank 2 killed by signal 9 (SIGKILL), which was started again". "" if none was lost.
  // `after` stands behind "well".
  std::string EndText(std::string_view after) const;

 private:
  // Somebody is in the group and has not ended.
  bool GroupLives() const;
  std::string StoryOf(const std::vector<const Rank*>& processes) const;

  const RunOptions& options_;
  std::deque<Rank>& ranks_;
  int restarts_ = 0;  // taken
  int64_t give_up_ns_ = INT64_MAX;
};

}  // namespace weft

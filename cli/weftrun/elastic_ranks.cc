#include "cli/weftrun/elastic_ranks.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace weft {

int ElasticRanks::left_count() const {
  return static_cast<int>(std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return !rank.waiting() && !rank.failed();
  }));
}

bool ElasticRanks::GroupLives() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return !rank.waiting() && !rank.exit.has_value(); });
}

bool ElasticRanks::TakeRestart() {
  if (restarts_ >= options_.restarts_max || !GroupLives()) return false;
  ++restarts_;
  return true;
}

std::string ElasticRanks::LostText(const Rank& lost, bool again) const {
  std::string next;
  if (again) {
    next = StrCat("; starting it again (", restarts_, " of at most ", options_.restarts_max, ")");
  } else if (options_.restarts_max > 0 && restarts_ == options_.restarts_max) {
    next = StrCat("; it is not started again, as --max-restarts ", options_.restarts_max,
                  " is used up");
  } else if (options_.restarts_max > 0 && !GroupLives()) {
    next = "; it is not started again, as all others have ended";
  }
  return StrCat(lost.WithPid(), " ", lost.exit->ToString(), " and is lost; ", left_count(), " of ",
                options_.ranks_per_node, " ranks are left", next);
}

std::vector<const Rank*> ElasticRanks::TakeJoined(const StoreServer& store) {
  std::vector<const Rank*> joined;
  for (Rank& rank : ranks_) {
    if (!rank.waiting() || rank.given_up || rank.exit.has_value()) continue;
    rank.joined = store.Holds(StrCat("join/joined/", rank.rank, ".", rank.restart));
    if (rank.joined) joined.push_back(&rank);
  }
  return joined;
}

std::vector<const Rank*> ElasticRanks::TakeGivenUp(int64_t now_ns) {
  std::vector<Rank*> waiting;
  for (Rank& rank : ranks_) {
    if (rank.waiting() && !rank.given_up && !rank.exit.has_value()) waiting.push_back(&rank);
  }
  if (waiting.empty() || GroupLives()) {
    give_up_ns_ = INT64_MAX;
    return {};
  }
  if (give_up_ns_ == INT64_MAX) give_up_ns_ = now_ns + kGiveUpNs;
  if (now_ns < give_up_ns_) return {};
  give_up_ns_ = INT64_MAX;
  for (Rank* rank : waiting)
    rank->given_up = true;
  return {waiting.begin(), waiting.end()};
}

std::string ElasticRanks::EndText(std::string_view after) const {
  int well_count = 0;
  std::map<int, std::vector<const Rank*>> by_rank;  // its processes, in order
  for (const Rank& rank : ranks_) {
    if (!rank.failed() && !rank.given_up && !rank.waiting()) ++well_count;
    by_rank[rank.rank].push_back(&rank);
  }
  std::string lost;
  for (const auto& [rank, processes] : by_rank) {
    if (!processes.front()->lost) continue;
    lost += StrCat(lost.empty() ? "" : "; ", StoryOf(processes));
  }
  if (lost.empty()) return "";
  return StrCat(well_count, " of ", options_.ranks_per_node, " ranks ended well", after,
                "; lost: ", lost);
}

// However often it was started: what happened first, and what became of it. The rest was said at its time.
std::string ElasticRanks::StoryOf(const std::vector<const Rank*>& processes) const {
  const Rank& first = *processes.front();
  const Rank& last = *processes.back();
  std::string story = StrCat("rank ", first.rank, " ", first.exit->ToString());
  if (last.restart == 0) return story;
  story += ", which was started again";
  if (last.restart > 1) story += StrCat(" ", last.restart, " times");
  if (last.given_up) {
    story += " and waited in vain to join";
  } else if (last.failed()) {
    story += StrCat(" and in the end ", last.exit->ToString());
  }
  return story;
}

}  // namespace weft

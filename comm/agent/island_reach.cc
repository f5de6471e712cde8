#include "comm/agent/island_reach.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace weft {
namespace {

bool ListsIsland(const std::vector<int32_t>& list, int number) {
  return std::find(list.begin(), list.end(), number) != list.end();
}

}  // namespace

IslandReach::IslandReach(const IslandMembership& membership, int island_count, int self,
                         int64_t confirm_ns, uint64_t first_number)
    : membership_(membership),
      island_count_(island_count),
      self_(self),
      confirm_ns_(confirm_ns),
      ended_(island_count),
      connected_(island_count),
      unreachable_(island_count) {
  reports_[self] = {.island = self, .number = first_number};
}

bool IslandReach::SetOwn(std::vector<int32_t> lost, std::vector<int32_t> extra,
                         std::vector<int32_t> stalled) {
  ReachReport& own = reports_.at(self_);
  if (own.lost == lost && own.extra == extra && own.stalled == stalled) return false;
  own.lost = std::move(lost);
  own.extra = std::move(extra);
  own.stalled = std::move(stalled);
  ++own.number;
  changed_ = true;
  return true;
}

bool IslandReach::Merge(const ReachReport& report) {
  if (report.island == self_ || !membership_.islands().Has(report.island)) return false;
  const auto known = reports_.find(report.island);
  if (known != reports_.end() && known->second.number >= report.number) return false;
  reports_[report.island] = report;
  changed_ = true;
  return true;
}

std::vector<ReachReport> IslandReach::All() const {
  std::vector<ReachReport> all;
  for (const auto& [island, report] : reports_) {
    if (report.number > 0) all.push_back(report);
  }
  return all;
}

IslandNumberSet IslandReach::Stalled() const {
  IslandNumberSet stalled(island_count_);
  for (const int island : reports_.at(self_).stalled)
    stalled.Add(island);
  const IslandNumberSet seen_here = stalled;
  for (const auto& [by, report] : reports_) {
    if (by == self_ || seen_here.Has(by) || !connected_.Has(by)) continue;
    for (const int island : report.stalled)
      stalled.Add(island);
  }
  stalled.Remove(self_);
  return stalled.And(connected_);
}

void IslandReach::Heard(int island, int64_t now_ns) {
  const auto missing = missing_since_ns_.find(island);
  if (missing != missing_since_ns_.end()) missing->second = now_ns;
}

bool IslandReach::Lost(int by, int peer) const {
  const auto report = reports_.find(by);
  return report != reports_.end() && ListsIsland(report->second.lost, peer);
}

bool IslandReach::HasExtra(int by, int peer) const {
  const auto report = reports_.find(by);
  return report != reports_.end() && ListsIsland(report->second.extra, peer);
}

// Breadth first from this island. Nothing goes over islands that have ended.
void IslandReach::Connect(const IslandNumberSet& ended) {
  changed_ = false;
  ended_ = ended;
  connected_ = IslandNumberSet(island_count_);
  connected_.Add(self_);
  std::vector<int> queue = {self_};
  for (size_t next = 0; next < queue.size(); ++next) {
    const int at = queue[next];
    for (const int peer : membership_.NeighboursOf(at)) {
      if (Lost(at, peer) || Lost(peer, at)) continue;
      if (connected_.Add(peer) && !ended.Has(peer)) queue.push_back(peer);
    }
    const auto report = reports_.find(at);
    if (report == reports_.end()) continue;
    for (const int peer : report->second.extra) {
      if (!HasExtra(peer, at) || !membership_.islands().Has(peer)) continue;
      if (connected_.Add(peer) && !ended.Has(peer)) queue.push_back(peer);
    }
  }
}

std::vector<int> IslandReach::Judge(int64_t now_ns, const IslandNumberSet& ended) {
  if (changed_ || !(ended == ended_)) Connect(ended);
  const IslandNumberSet missing = membership_.islands().Minus(connected_).Minus(ended);
  unreachable_ = unreachable_.And(missing);
  std::erase_if(missing_since_ns_, [&](const auto& entry) { return !missing.Has(entry.first); });
  std::vector<int> found;
  for (const int island : missing.Minus(unreachable_).Numbers()) {
    const int64_t since_ns = missing_since_ns_.try_emplace(island, now_ns).first->second;
    if (now_ns - since_ns < confirm_ns_) continue;
    missing_since_ns_.erase(island);
    unreachable_.Add(island);
    found.push_back(island);
  }
  return found;
}

int64_t IslandReach::NextWakeNs() const {
  // As at the start of an epoch: to be judged at once, though nothing else may happen for long.
  if (changed_) return std::numeric_limits<int64_t>::min();
  int64_t wake_ns = std::numeric_limits<int64_t>::max();
  for (const auto& [island, since_ns] : missing_since_ns_)
    wake_ns = std::min(wake_ns, since_ns + confirm_ns_);
  return wake_ns;
}

}  // namespace weft

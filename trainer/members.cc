#include "trainer/members.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/core.h>

#include "weft/collective.h"
#include "weft/error.h"

#include "trainer/parallel.h"

namespace weft::trainer {
namespace {

// For processes that have said that they would join, to come and meet the others.
constexpr std::chrono::milliseconds kAskEvery{100};
constexpr int64_t kTakeInNs = 10'000'000'000;

}  // namespace

std::optional<LostRank> LossOf(const WeftFailure& failure, weft_group_t group) {
  if (failure.result() == WEFT_PEER_LOST) return LostRank{failure.world_rank(), failure.pid()};
  // Calls after the one that met the death are ABORTED; the group knows the cause.
  if (weft_group_error(group) != WEFT_PEER_LOST) return std::nullopt;
  weft_error_info_t info = {};
  info.struct_size = sizeof info;
  weft_last_error_info(&info);
  return LostRank{info.world_rank, info.pid};
}

Members::Members(weft_group_t group) : group_(group) {
  AskGroup();
}

void Members::AskGroup() {
  int rank = 0, size = 1;
  Check(weft_group_rank(group_, &rank), "asking for the rank");
  Check(weft_group_size(group_, &size), "asking for the group's size");
  rank_ = size_t(rank);
  size_ = size_t(size);
}

std::string Members::GoOnWithout(const LostRank& lost) {
  const size_t before = size_;
  Check(weft_group_reconfigure(group_, nullptr, 0, nullptr), "going on without the lost rank");
  AskGroup();
  std::string who = fmt::format("rank {} (pid {})", lost.world_rank, lost.pid);
  if (before > size_ + 1) who += fmt::format(" and {} more", before - size_ - 1);
  return who + " was lost";
}

// Rank 0 asks and the others are told, so that all make the same calls.
size_t Members::Waiting(size_t size_most) {
  int32_t count = 0;
  const auto now = std::chrono::steady_clock::now();
  if (rank_ == 0 && size_ < size_most && now - asked_ >= kAskEvery) {
    asked_ = now;
    const weft_result_t asked = weft_group_newcomers(group_, nullptr, &count);
    if (asked != WEFT_SUCCESS) count = 0;  // INVALID_USAGE: weftrun has not started this job
    count = std::min(count, int32_t(size_most - size_));
  }
  Check(weft_broadcast(&count, &count, 1, WEFT_INT32, 0, group_, nullptr, nullptr),
        "telling who waits to join");
  return size_t(count);
}

std::string Members::TakeIn(size_t count) {
  std::vector<int> ranks(size_ + count, WEFT_NEW_RANK);
  std::iota(ranks.begin(), ranks.begin() + long(size_), 0);
  weft_group_config_t config = {};
  config.struct_size = sizeof config;
  config.init_timeout_ns = kTakeInNs;
  std::string change =
      count == 1 ? "a new rank has joined" : fmt::format("{} new ranks have joined", count);
  if (weft_group_reconfigure(group_, ranks.data(), int(ranks.size()), &config) != WEFT_SUCCESS) {
    change = fmt::format("no new rank has joined ({})", weft_last_error());
    // A group that has ended meanwhile is made anew of those that live.
    if (weft_group_error(group_) != WEFT_SUCCESS) {
      Check(weft_group_reconfigure(group_, nullptr, 0, nullptr), "going on without new ranks");
    }
  }
  AskGroup();
  return change;
}

}  // namespace weft::trainer

// Batches of messages and collectives on a group over fake nodes, whose ranks are processes. Also run with WEFT_PROGRESS=caller.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/forked_group.h"

namespace weft::test {
namespace {

constexpr int kSize = 3;
constexpr size_t kLarge = 300'001;

// Each rank sends to all, itself too, more than goes without being received, and receives in another order; a collective beside it.
std::string ExchangeInOneBatch(weft_group_t group, int rank, bool by_work) {
  std::vector<std::vector<int>> in;
  std::vector<std::vector<int>> out(kSize);
  std::vector<int> senders(kSize, -1);
  weft_work_t works[2 * kSize + 1] = {};
  const auto work = [&](int number) {
    return by_work ? &works[number] : nullptr;
  };
  for (int peer = 0; peer < kSize; ++peer)
    in.emplace_back(kLarge + static_cast<size_t>(peer), 10 * rank + peer);
  float sum = 1;
  SAY_UNLESS(weft_batch_begin() == WEFT_SUCCESS);
  for (int peer = 0; peer < kSize; ++peer) {
    const std::vector<int>& data = in[static_cast<size_t>(peer)];
    SAY_UNLESS(weft_send(data.data(), data.size(), WEFT_INT32, peer, 4, group, nullptr,
                         work(peer)) == WEFT_SUCCESS);
  }
  SAY_UNLESS(weft_all_reduce(&sum, &sum, 1, WEFT_FLOAT32, WEFT_SUM, group, nullptr,
                             work(2 * kSize)) == WEFT_SUCCESS);
  for (int peer = kSize - 1; peer >= 0; --peer) {
    std::vector<int>& data = out[static_cast<size_t>(peer)];
    data.resize(kLarge + static_cast<size_t>(rank));
    SAY_UNLESS(weft_recv(data.data(), data.size(), WEFT_INT32, peer, 4,
                         &senders[static_cast<size_t>(peer)], group, nullptr,
                         work(kSize + peer)) == WEFT_SUCCESS);
  }
  SAY_UNLESS(weft_batch_end() == WEFT_SUCCESS);
  for (weft_work_t& started : works) {
    if (!by_work) continue;
    SAY_UNLESS(weft_work_wait(started, 0) == WEFT_SUCCESS);
    SAY_UNLESS(weft_work_free(started) == WEFT_SUCCESS);
  }
  if (sum != kSize) return "another sum";
  for (int peer = 0; peer < kSize; ++peer) {
    const auto at = static_cast<size_t>(peer);
    if (senders[at] != peer) return "another sender";
    for (const int value : out[at]) {
      if (value != 10 * peer + rank) return "another content";
    }
  }
  return "";
}

TEST(SpanBatch, MessagesToAllAndACollectiveGoTogether) {
  OnForkedGroup({kSize, "0,1,0"}, [](const GroupRank& self) -> std::string {
    for (const bool by_work : {false, true, false}) {
      std::string problem = ExchangeInOneBatch(self.group, self.rank, by_work);
      if (!problem.empty()) return problem;
    }
    return "";
  });
}

}  // namespace
}  // namespace weft::test

// Batches of messages and collectives on a group over fake nodes, whose ranks are processes. Also run with WEFT_PROGRESS=caller.
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"
#include "tests/support/forked_ranks.h"

namespace weft::test {
namespace {

constexpr int64_t kTimeoutNs = 30'000'000'000;
constexpr int kSize = 3;
constexpr size_t kLarge = 300'001;

#define SAY_UNLESS(condition)                                                  \
  do {                                                                         \
    if (!(condition)) return std::string(#condition ": ") + weft_last_error(); \
  } while (0)

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
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::vector<RankEnd> ranks = RunForkedRanks(kSize, 60, [&](int rank) -> std::string {
    setenv("WEFT_FAKE_NODES", "0,1,0", 1);
    weft_unique_id_t id;
    if (rank == 0) {
      SAY_UNLESS(weft_unique_id_create(&id) == WEFT_SUCCESS);
      for (int other = 1; other < kSize; ++other)
        SAY_UNLESS(write(ends[1], &id, sizeof(id)) == sizeof(id));
    } else {
      SAY_UNLESS(read(ends[0], &id, sizeof(id)) == sizeof(id));
    }
    const weft_group_config_t config = ConfigNamed("batches", kTimeoutNs);
    weft_group_t group = nullptr;
    SAY_UNLESS(weft_group_create_from_id(&id, kSize, rank, &config, &group) == WEFT_SUCCESS);
    for (const bool by_work : {false, true, false}) {
      const std::string problem = ExchangeInOneBatch(group, rank, by_work);
      if (!problem.empty()) return problem;
    }
    SAY_UNLESS(weft_group_destroy(group) == WEFT_SUCCESS);
    return "";
  });
  for (const RankEnd& end : ranks)
    EXPECT_EQ(end.Problem(), "");
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace weft::test

#include "cli/weftrun/elastic_ranks.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/rendezvous/served_store.h"
#include "tests/comm/rendezvous/store_calls.h"

namespace weft::test::elastic_ranks_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ExitReport kKilled = {.signal = 9};

class ElasticRanksTest : public ::testing::Test {
 protected:
  ElasticRanksTest() {
    options_.elastic = true;
    options_.restarts_max = 3;
    options_.ranks_per_node = 3;
    for (int rank = 0; rank < 3; ++rank)
      Start(rank, 0);
  }

  Rank& Start(int rank, int restart) {
    Rank& started = ranks_.emplace_back();
    started.rank = rank;
    started.restart = restart;
    started.pid = 100 * (restart + 1) + rank;
    return started;
  }

  void Lose(Rank& rank, ExitReport exit = kKilled) {
    rank.exit = exit;
    rank.lost = true;
  }

  RunOptions options_;
  std::deque<Rank> ranks_;
  ElasticRanks elastic_{options_, &ranks_};
};

TEST_F(ElasticRanksTest, ANewcomerCountsFromWhenItHasJoined) {
  options_.ranks_min = 3;
  EXPECT_TRUE(elastic_.EnoughLeft());
  Lose(ranks_[1]);
  EXPECT_EQ(elastic_.left_count(), 2);
  EXPECT_FALSE(elastic_.EnoughLeft());
  Rank& newcomer = Start(1, 1);
  EXPECT_EQ(elastic_.left_count(), 2);
  newcomer.joined = true;
  EXPECT_EQ(elastic_.left_count(), 3);
  ranks_[0].exit = ExitReport{};
  EXPECT_EQ(elastic_.left_count(), 3) << "one that ended well has not failed";
}

TEST_F(ElasticRanksTest, RestartsAreCountedForAllRanksTogether) {
  options_.restarts_max = 2;
  Lose(ranks_[1]);
  ASSERT_TRUE(elastic_.TakeRestart());
  EXPECT_EQ(elastic_.LostText(ranks_[1], true),
            "rank 1 (pid 101) killed by signal 9 (SIGKILL) and is lost; 2 of 3 ranks are left; "
            "starting it again (1 of at most 2)");
  Lose(ranks_[2]);
  ASSERT_TRUE(elastic_.TakeRestart());
  Lose(Start(2, 1), {.exit_code = 4});
  ASSERT_FALSE(elastic_.TakeRestart());
  EXPECT_EQ(elastic_.LostText(ranks_.back(), false),
            "rank 2 (pid 202) exited with code 4 and is lost; 1 of 3 ranks are left; it is not "
            "started again, as --max-restarts 2 is used up");
}

TEST_F(ElasticRanksTest, WithoutRestartsNothingIsSaidOfThem) {
  options_.restarts_max = 0;
  Lose(ranks_[1]);
  EXPECT_FALSE(elastic_.TakeRestart());
  EXPECT_EQ(elastic_.LostText(ranks_[1], false),
            "rank 1 (pid 101) killed by signal 9 (SIGKILL) and is lost; 2 of 3 ranks are left");
}

TEST_F(ElasticRanksTest, NobodyIsStartedWhomNobodyCouldTakeIn) {
  Lose(ranks_[1]);
  Start(1, 1);
  ranks_[0].exit = ExitReport{};
  Lose(ranks_[2]);
  EXPECT_FALSE(elastic_.TakeRestart()) << "the newcomer that waits cannot take anybody in";
  EXPECT_EQ(elastic_.LostText(ranks_[2], false),
            "rank 2 (pid 102) killed by signal 9 (SIGKILL) and is lost; 1 of 3 ranks are left; it "
            "is not started again, as all others have ended");
}

TEST_F(ElasticRanksTest, TheStoreTellsWhoHasJoined) {
  ServedStore served({.secret = "secret"}, Loopback());
  {
    RemoteStore store(SystemSeams(), ClientOptions(served.endpoint(), "secret"));
    for (const char* key : {"join/joined/1.2", "join/joined/2.1", "1.1/join/joined/0.1"})
      ASSERT_TRUE(Set(store, key, "", In(60)).ok());
  }
  served.Stop();
  for (int rank = 0; rank < 3; ++rank)
    Lose(ranks_[rank]);
  Start(0, 1);
  Lose(Start(1, 1));
  Rank& second = Start(1, 2);
  Rank& third = Start(2, 1);
  EXPECT_THAT(elastic_.TakeJoined(served.server()), ElementsAre(&second, &third));
  EXPECT_THAT(elastic_.TakeJoined(served.server()), IsEmpty()) << "each is told once";
  EXPECT_EQ(elastic_.left_count(), 2);
}

TEST_F(ElasticRanksTest, NewcomersThatNobodyCanTakeInAreGivenUpAfterAWhile) {
  constexpr int64_t kStartNs = 7'000'000'000;
  for (int rank : {1, 2})
    Lose(ranks_[rank]);
  Rank& first = Start(1, 1);
  Rank& second = Start(2, 1);
  EXPECT_THAT(elastic_.TakeGivenUp(kStartNs), IsEmpty());
  EXPECT_EQ(elastic_.give_up_ns(), INT64_MAX) << "rank 0 lives";
  ranks_[0].exit = ExitReport{};
  EXPECT_THAT(elastic_.TakeGivenUp(kStartNs), IsEmpty());
  EXPECT_EQ(elastic_.give_up_ns(), kStartNs + ElasticRanks::kGiveUpNs);
  EXPECT_THAT(elastic_.TakeGivenUp(elastic_.give_up_ns() - 1), IsEmpty());
  EXPECT_THAT(elastic_.TakeGivenUp(elastic_.give_up_ns()), ElementsAre(&first, &second));
  EXPECT_THAT(elastic_.TakeGivenUp(INT64_MAX), IsEmpty()) << "each once";
  for (Rank* rank : {&first, &second})
    rank->exit = ExitReport{};
  EXPECT_EQ(elastic_.EndText(""),
            "1 of 3 ranks ended well; lost: rank 1 killed by signal 9 (SIGKILL), which was started "
            "again and waited in vain to join; rank 2 killed by signal 9 (SIGKILL), which was "
            "started again and waited in vain to join");
}

TEST_F(ElasticRanksTest, OneThatWasTakenInAtTheLastMomentGoesOn) {
  Lose(ranks_[1]);
  Rank& newcomer = Start(1, 1);
  for (int rank : {0, 2})
    ranks_[rank].exit = ExitReport{};
  EXPECT_THAT(elastic_.TakeGivenUp(0), IsEmpty());
  newcomer.joined = true;
  EXPECT_THAT(elastic_.TakeGivenUp(elastic_.give_up_ns()), IsEmpty());
  EXPECT_EQ(elastic_.give_up_ns(), INT64_MAX);
  newcomer.exit = ExitReport{};
  EXPECT_EQ(elastic_.EndText(" after SIGTERM"),
            "3 of 3 ranks ended well after SIGTERM; lost: rank 1 killed by signal 9 (SIGKILL), "
            "which was started again");
}

TEST_F(ElasticRanksTest, TheEndIsToldOnceOfEachRank) {
  for (Rank& rank : ranks_)
    rank.exit = ExitReport{};
  EXPECT_EQ(elastic_.EndText(""), "");
  Lose(ranks_[2]);
  for (int restart : {1, 2, 3})
    Lose(Start(2, restart), {.exit_code = restart});
  EXPECT_EQ(elastic_.EndText(""),
            "2 of 3 ranks ended well; lost: rank 2 killed by signal 9 (SIGKILL), which was started "
            "again 3 times and in the end exited with code 3");
}

}  // namespace
}  // namespace weft::test::elastic_ranks_test

// Store and membership in a simulated network: hundreds of seeds, each with its own delays, cuts,
// broken connections and dead ranks. Every run must end, in agreement or in errors that say why.
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/rendezvous/store_server.h"
#include "tests/comm/rendezvous/exchanging_rank.h"
#include "tests/sim/sim_world.h"
#include "tests/support/leak_check.h"

namespace weft::test::simulation_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kDeadlineNs = 6 * kSecondNs;
const Endpoint kEndpoint{.kind = Endpoint::Kind::kTcp, .host = "10.0.0.1", .port = 29500};

// One run: a server on rank 0's node, and ranks on nodes of their own.
class Job {
 public:
  Job(uint64_t seed, int size) : world_(seed), size_(size) {
    server_node_ = world_.AddNode();
    server_ = std::make_unique<StoreServer>(server_node_->seams(),
                                            StoreServerOptions{.secret = "a secret of the job"});
    Endpoint endpoint = kEndpoint;
    EXPECT_TRUE(server_->AddListener(&endpoint).ok());
    world_.AddActor({server_node_, [this] { server_->Step(); },
                     [this] { return server_->NextWakeNs(); },
                     [] {
                       return true;
                     }});
  }

  // Rank 0 shares the server's node. `start_ns` is when it starts to connect, after the run's start.
  ExchangingRank* AddRank(int rank, int pid, int64_t start_ns, int declared_size,
                          const std::string& secret = "a secret of the job") {
    SimNode* const node = rank == 0 ? server_node_ : world_.AddNode();
    nodes_[pid] = node;
    const int64_t deadline_ns = world_.now_ns() + kDeadlineNs;
    StoreClientOptions options;
    options.endpoints = {kEndpoint};
    options.secret = secret;
    options.rank = rank;
    options.connect_deadline_ns = deadline_ns;
    options.host_hint = "rank 0";
    ranks_.push_back(
        std::make_unique<ExchangingRank>(node->seams(), options, declared_size, pid, deadline_ns));
    ExchangingRank* const added = ranks_.back().get();
    const int64_t start_at_ns = world_.now_ns() + start_ns;
    world_.AddActor({node,
                     [this, added, start_at_ns] {
                       if (world_.now_ns() >= start_at_ns) added->Step();
                     },
                     [this, added, start_at_ns] {
                       return world_.now_ns() < start_at_ns ? start_at_ns : added->NextWakeNs();
                     },
                     [added] {
                       return added->finished();
                     }});
    return added;
  }

  void AddRanks(int64_t spread_ns) {
    for (int rank = 0; rank < size_; ++rank) {
      AddRank(rank, 100 + rank, static_cast<int64_t>(world_.Pick(spread_ns)), size_);
    }
  }

  // True if every rank came to an end within the deadline, the grace periods and some delays.
  bool Finish() { return world_.Run(world_.now_ns() + kDeadlineNs + 3 * kSecondNs); }

  // What is open once everybody is gone.
  int OpenAfterwards() {
    ranks_.clear();
    server_.reset();
    return world_.open_handles();
  }

  // All ranks that got members got the same.
  void ExpectAgreement() {
    const Membership* first = nullptr;
    for (const auto& rank : ranks_) {
      if (!rank->finished() || !rank->result().ok()) continue;
      const Membership& members = *rank->result();
      if (first == nullptr) first = &members;
      EXPECT_EQ(members.group_id, first->group_id);
      ASSERT_EQ(members.members.size(), static_cast<size_t>(size_));
      for (int i = 0; i < size_; ++i) {
        EXPECT_EQ(members.members[i].rank, i);
        EXPECT_EQ(members.members[i].pid, first->members[i].pid);
        EXPECT_EQ(members.members[i].node_socket, "socket" + std::to_string(i));
      }
    }
  }

  SimWorld& world() { return world_; }

  SimNode* server_node() { return server_node_; }

  SimNode* node_of_pid(int pid) { return nodes_.at(pid); }

  ExchangingRank& rank(size_t index) { return *ranks_[index]; }

  size_t rank_count() const { return ranks_.size(); }

  StoreServer& server() { return *server_; }

 private:
  SimWorld world_;
  const int size_;
  SimNode* server_node_;
  std::unique_ptr<StoreServer> server_;
  std::map<int, SimNode*> nodes_;
  std::vector<std::unique_ptr<ExchangingRank>> ranks_;
};

// Sanitizers make a run twenty times as long; they look at the same code paths with fewer seeds.
#ifdef WEFT_SANITIZE
constexpr int kSeedDivisor = 5;
#else
constexpr int kSeedDivisor = 1;
#endif

// The seeds of one test; WEFT_TEST_SEED picks a single one.
std::vector<uint64_t> Seeds(int count) {
  const uint64_t chosen = TestSeed(0);
  if (chosen != 0) return {chosen};
  std::vector<uint64_t> seeds;
  for (int i = 1; i <= count / kSeedDivisor; ++i)
    seeds.push_back(static_cast<uint64_t>(i) * 7919);
  return seeds;
}

TEST(Simulation, EveryWorldWithoutFaultsAgrees) {
  for (const int size : {1, 2, 3, 4, 5, 7, 8, 11, 16}) {
    for (const uint64_t seed : Seeds(20)) {
      SCOPED_TRACE(StrCat("size ", size, " seed ", seed));
      Job job(seed, size);
      job.AddRanks(kSecondNs);
      ASSERT_TRUE(job.Finish());
      for (size_t i = 0; i < job.rank_count(); ++i) {
        EXPECT_TRUE(job.rank(i).result().ok()) << job.rank(i).result().status();
      }
      job.ExpectAgreement();
      EXPECT_EQ(job.OpenAfterwards(), 0);
    }
  }
}

TEST(Simulation, MissingRanksAreNamedByEveryRank) {
  for (const uint64_t seed : Seeds(40)) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Job job(seed, 5);
    for (const int rank : {0, 2, 4})
      job.AddRank(rank, 100 + rank, job.world().Pick(kSecondNs), 5);
    ASSERT_TRUE(job.Finish());
    for (size_t i = 0; i < job.rank_count(); ++i) {
      const absl::Status status = job.rank(i).result().status();
      EXPECT_EQ(ResultOf(status), WEFT_TIMEOUT);
      EXPECT_THAT(std::string(status.message()), HasSubstr("2 of 5 ranks did not come"));
      EXPECT_THAT(std::string(status.message()), HasSubstr("missing 1, 3;"));
      EXPECT_EQ(FieldsOf(status).rank, 1);
    }
    EXPECT_EQ(job.OpenAfterwards(), 0);
  }
}

TEST(Simulation, TheSecondToClaimARankLearnsWhoWasFirst) {
  for (const uint64_t seed : Seeds(40)) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Job job(seed, 3);
    job.AddRanks(kSecondNs);
    job.AddRank(1, 900, static_cast<int64_t>(job.world().Pick(kSecondNs)), 3);
    ASSERT_TRUE(job.Finish());
    // One of the two that say they are rank 1 joins, the other one is told about both.
    const bool first_won = job.rank(1).result().ok();
    const absl::Status loser = job.rank(first_won ? 3 : 1).result().status();
    EXPECT_TRUE(job.rank(first_won ? 1 : 3).result().ok());
    EXPECT_EQ(ResultOf(loser), WEFT_INVALID_USAGE);
    EXPECT_THAT(std::string(loser.message()), HasSubstr("pid 101 on host101"));
    EXPECT_THAT(std::string(loser.message()), HasSubstr("pid 900 on host900"));
    EXPECT_TRUE(job.rank(0).result().ok()) << job.rank(0).result().status();
    EXPECT_TRUE(job.rank(2).result().ok()) << job.rank(2).result().status();
    job.ExpectAgreement();
    EXPECT_EQ(job.OpenAfterwards(), 0);
  }
}

TEST(Simulation, DifferentSizesAreNamed) {
  for (const uint64_t seed : Seeds(40)) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Job job(seed, 3);
    job.AddRank(0, 100, 0, 3);
    job.AddRank(1, 101, job.world().Pick(kSecondNs), 3);
    job.AddRank(2, 102, job.world().Pick(kSecondNs), 4);
    ASSERT_TRUE(job.Finish());
    for (size_t i = 0; i < 3; ++i) {
      const absl::Status status = job.rank(i).result().status();
      EXPECT_EQ(ResultOf(status), WEFT_MISMATCH) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("rank 2 (pid 102 on host102) was started for 4"));
    }
    EXPECT_EQ(job.OpenAfterwards(), 0);
  }
}

TEST(Simulation, AStrangerWithTheWrongSecretIsRefusedAndTheOthersJoin) {
  for (const uint64_t seed : Seeds(20)) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Job job(seed, 2);
    job.AddRanks(kSecondNs);
    job.AddRank(1, 666, 0, 2, "a guess");
    ASSERT_TRUE(job.Finish());
    EXPECT_TRUE(job.rank(0).result().ok());
    EXPECT_TRUE(job.rank(1).result().ok());
    EXPECT_EQ(ResultOf(job.rank(2).result().status()), WEFT_AUTH_FAILED);
    EXPECT_EQ(job.server().refused(Refusal::kWrongSecret), 1u);
    EXPECT_EQ(job.OpenAfterwards(), 0);
  }
}

// A survivor's error is one of: who is missing, or that the store (and so rank 0) is gone.
void ExpectExplained(const absl::Status& status, int killed) {
  const std::string sentence(status.message());
  const weft_result_t result = ResultOf(status);
  if (result == WEFT_TIMEOUT) {
    EXPECT_TRUE(sentence.find(StrCat("missing ", killed, ";")) != std::string::npos ||
                sentence.find("rank 0") != std::string::npos)
        << sentence;
  } else {
    EXPECT_EQ(result, WEFT_UNREACHABLE) << sentence;
    EXPECT_THAT(sentence, HasSubstr("rank 0"));
  }
}

TEST(Simulation, AKilledRankIsNamedOrHadJoined) {
  int failures = 0;
  int successes = 0;
  for (const uint64_t seed : Seeds(200)) {
    Job job(seed, 4);
    const int killed = static_cast<int>(job.world().Pick(4));
    SCOPED_TRACE(StrCat("seed ", seed, " kills rank ", killed));
    job.AddRanks(50'000'000);
    job.world().KillAt(job.node_of_pid(100 + killed),
                       job.world().now_ns() + static_cast<int64_t>(job.world().Pick(150'000'000)));
    ASSERT_TRUE(job.Finish());
    job.ExpectAgreement();
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == killed) continue;
      const absl::Status status = job.rank(rank).result().status();
      ++(status.ok() ? successes : failures);
      if (!status.ok()) ExpectExplained(status, killed);
    }
    EXPECT_EQ(job.OpenAfterwards(), 0);
  }
  // The seeds reach both outcomes, else they show little.
  if (TestSeed(0) == 0) {
    EXPECT_GT(failures, 50 / kSeedDivisor);
    EXPECT_GT(successes, 50 / kSeedDivisor);
  }
}

// With processes that can be watched: whoever has come and dies is named soon, by all, and nobody else is.
TEST(Simulation, AKilledRankThatHasComeIsNamedLongBeforeTheDeadline) {
  int named = 0;
  for (const uint64_t seed : Seeds(200)) {
    Job job(seed, 5);
    const int killed = static_cast<int>(job.world().Pick(5));
    const int late = (killed + 1) % 5;  // keeps the others waiting
    SCOPED_TRACE(StrCat("seed ", seed, " kills rank ", killed, ", rank ", late, " is late"));
    for (int rank = 0; rank < 5; ++rank) {
      const int64_t start_ns = rank == late ? 3 * kSecondNs : job.world().Pick(50'000'000);
      job.AddRank(rank, 100 + rank, start_ns, 5)->WatchBy([&job](const GroupMember& member) {
        return !job.node_of_pid(member.pid)->alive();
      });
    }
    const int64_t start_ns = job.world().now_ns();
    job.world().KillAt(job.node_of_pid(100 + killed),
                       start_ns + static_cast<int64_t>(job.world().Pick(1'500'000'000)));
    ASSERT_TRUE(job.Finish());
    for (int rank = 0; rank < 5; ++rank) {
      const absl::Status status = job.rank(rank).result().status();
      if (rank == killed) continue;
      ASSERT_FALSE(status.ok());
      if (ResultOf(status) != WEFT_PEER_LOST) {  // it had not come
        ExpectExplained(status, killed);
        continue;
      }
      ++named;
      EXPECT_EQ(FieldsOf(status).rank, killed) << status;
    }
    // Whoever waits for a line of the one that was killed waits until the deadline; so does who comes late to a store that
    // was rank 0's.
    if (ResultOf(job.rank(killed == 4 ? 3 : 4).result().status()) == WEFT_PEER_LOST && late != 0 &&
        killed != 0) {
      EXPECT_LT(job.world().now_ns() - start_ns, kDeadlineNs);
    }
    EXPECT_EQ(job.OpenAfterwards(), 0);
  }
  if (TestSeed(0) == 0) {
    EXPECT_GT(named, 300 / kSeedDivisor);
  }
}

TEST(Simulation, ARankThatGivesUpIsNamedByAllLongBeforeTheDeadline) {
  int named = 0;
  for (const uint64_t seed : Seeds(200)) {
    Job job(seed, 5);
    const int quits = static_cast<int>(job.world().Pick(5));
    const int late = (quits + 1) % 5;  // keeps the others waiting
    SCOPED_TRACE(StrCat("seed ", seed, ": rank ", quits, " gives up, rank ", late, " is late"));
    const int64_t start_ns = job.world().now_ns();
    for (int rank = 0; rank < 5; ++rank) {
      const int64_t comes_ns = rank == late ? 3 * kSecondNs : job.world().Pick(50'000'000);
      ExchangingRank* const added = job.AddRank(rank, 100 + rank, comes_ns, 5);
      if (rank == quits) {
        added->GiveUpAt(start_ns + static_cast<int64_t>(job.world().Pick(1'500'000'000)));
      }
    }
    ASSERT_TRUE(job.Finish());
    for (int rank = 0; rank < 5; ++rank) {
      const absl::Status status = job.rank(rank).result().status();
      if (ResultOf(status) != WEFT_ABORTED) {  // it came to a store that rank 0 had served
        ExpectExplained(status, quits);
        continue;
      }
      ++named;
      EXPECT_EQ(FieldsOf(status).rank, quits) << status;
    }
    if (late != 0 && quits != 0) {
      EXPECT_LT(job.world().now_ns() - start_ns, kDeadlineNs);
    }
    EXPECT_EQ(job.OpenAfterwards(), 0);
  }
  if (TestSeed(0) == 0) {
    EXPECT_GT(named, 800 / kSeedDivisor);
  }
}

TEST(Simulation, BrokenConnectionsEndInAgreementOrInAReason) {
  for (const uint64_t seed : Seeds(200)) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Job job(seed, 4);
    job.AddRanks(50'000'000);
    for (int i = 0; i < 3; ++i) {
      job.world().BreakSomeConnectionAt(job.world().now_ns() +
                                        static_cast<int64_t>(job.world().Pick(150'000'000)));
    }
    ASSERT_TRUE(job.Finish());
    job.ExpectAgreement();
    for (int rank = 0; rank < 4; ++rank) {
      const absl::Status status = job.rank(rank).result().status();
      if (status.ok()) continue;
      const weft_result_t result = ResultOf(status);
      EXPECT_TRUE(result == WEFT_TIMEOUT || result == WEFT_UNREACHABLE) << status;
      EXPECT_FALSE(status.message().empty());
    }
    EXPECT_EQ(job.OpenAfterwards(), 0);
  }
}

// Each says it after two seconds, with the rank that came meanwhile left out; and not again within the six.
TEST(Simulation, ALongWaitIsSpokenOfByEveryRank) {
  for (const uint64_t seed : Seeds(20)) {
    SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(seed));
    Job job(seed, 5);
    for (const int rank : {0, 1, 4})
      job.AddRank(rank, 100 + rank, rank == 4 ? kSecondNs : 0, 5);
    ASSERT_TRUE(job.Finish());
    for (size_t i = 0; i < job.rank_count(); ++i) {
      ASSERT_EQ(job.rank(i).notices().size(), 1u);
      EXPECT_THAT(
          job.rank(i).notices()[0],
          HasSubstr(" has waited 2 s for ranks 2, 3 of 5, which have not come to the store at "
                    "tcp:10.0.0.1:29500 of rank 0; check that they were started"));
    }
  }
}

TEST(Simulation, AWaitForRankZeroAloneIsSpokenOf) {
  Job job(TestSeed(1), 2);
  job.AddRank(1, 101, 0, 2);
  ASSERT_TRUE(job.Finish());
  ASSERT_EQ(job.rank(0).notices().size(), 1u);
  EXPECT_THAT(job.rank(0).notices()[0],
              HasSubstr("rank 1 has waited 2 s for rank 0 of 2, which has not come"));
}

// Of so many some speak for all.
TEST(Simulation, InALargeGroupFewSpeakOfALongWait) {
  constexpr int kSize = MembershipExchange::kSpeakersEvery + 2;
  Job job(TestSeed(1), kSize);
  constexpr int kThere[] = {0, 1, MembershipExchange::kSpeakersEvery - 1,
                            MembershipExchange::kSpeakersEvery};
  for (const int rank : kThere)
    job.AddRank(rank, 100 + rank, 0, kSize);
  ASSERT_TRUE(job.Finish());
  for (size_t i = 0; i < std::size(kThere); ++i) {
    EXPECT_EQ(job.rank(i).notices().empty(), kThere[i] % MembershipExchange::kSpeakersEvery != 0)
        << kThere[i];
  }
}

TEST(Simulation, RanksMayComeSecondsApart) {
  for (const uint64_t seed : Seeds(40)) {
    SCOPED_TRACE(StrCat("seed ", seed));
    Job job(seed, 2);
    job.AddRank(0, 100, 4 * kSecondNs, 2);
    job.AddRank(1, 101, 0, 2);
    ASSERT_TRUE(job.Finish());
    EXPECT_TRUE(job.rank(0).result().ok()) << job.rank(0).result().status();
    EXPECT_TRUE(job.rank(1).result().ok()) << job.rank(1).result().status();
    EXPECT_EQ(job.OpenAfterwards(), 0);
  }
}

}  // namespace
}  // namespace weft::test::simulation_test

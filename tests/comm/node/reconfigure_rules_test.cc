// Whose turn it is, from what a rank sees; and the board on which it stands.
#include "comm/node/reconfigure_rules.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "comm/node/reconfigure_board.h"

namespace weft::test::reconfigure_rules_test {
namespace {

using Voters = std::vector<ReconfigureVoter>;
using End = ReconfigureOutcome::Kind;
using Turn = ReconfigureMove::Kind;

constexpr uint64_t kWish = 7;

ReconfigureVoter Voted(uint64_t wish = kWish) {
  return {.vote = wish};
}

ReconfigureVoter Silent() {
  return {};
}

// Its last vote counts no more.
ReconfigureVoter Dead() {
  return {.gone = true, .vote = 99};
}

TEST(ReconfigureRules, NothingIsDecidedBeforeAllThatLiveHaveVoted) {
  for (int silent = 0; silent < 4; ++silent) {
    Voters voters{Voted(), Voted(), Voted(), Voted()};
    voters[static_cast<size_t>(silent)] = Silent();
    for (int rank = 0; rank < 4; ++rank) {
      if (rank == silent) continue;
      EXPECT_EQ(NextMove(rank, voters, {}).kind, Turn::kWait);
      EXPECT_EQ(NextMove(rank, voters, {3, 1}).kind, Turn::kWait);
      EXPECT_EQ(NextMove(rank, voters, {}).awaited, silent);
      EXPECT_FALSE(NextMove(rank, voters, {}).voted);
    }
    voters[static_cast<size_t>((silent + 1) % 4)] = Voted(8);  // not even that they differ
    EXPECT_EQ(NextMove((silent + 2) % 4, voters, {}).kind, Turn::kWait);
  }
}

TEST(ReconfigureRules, TheFirstThatLivesLeadsAllThatLive) {
  const Voters voters{Dead(), Voted(), Dead(), Voted(), Voted()};
  EXPECT_EQ(NextMove(1, voters, {}).kind, Turn::kLead);
  EXPECT_EQ(NextMove(1, voters, {}).members, (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(NextMove(3, voters, {}).kind, Turn::kWait);
  EXPECT_EQ(NextMove(4, voters, {}).kind, Turn::kWait);
  EXPECT_EQ(NextMove(4, voters, {}).awaited, 1);
  EXPECT_TRUE(NextMove(4, voters, {}).voted);
  EXPECT_EQ(NextMove(2, {Dead(), Dead(), Voted()}, {}).members, std::vector<int>{2});
}

TEST(ReconfigureRules, TheFirstThatIsListedLeadsTheList) {
  const Voters voters{Voted(), Voted(), Dead(), Voted()};
  const std::vector<int> list{3, 0};
  EXPECT_EQ(NextMove(3, voters, list).kind, Turn::kLead);
  EXPECT_EQ(NextMove(3, voters, list).members, list);
  EXPECT_EQ(NextMove(0, voters, list).kind, Turn::kWait);
  EXPECT_EQ(NextMove(1, voters, list).kind, Turn::kWait);
  EXPECT_EQ(NextMove(1, voters, list).awaited, 3);
}

TEST(ReconfigureRules, AnybodySaysThatListsDiffer) {
  const Voters voters{Dead(), Voted(), Voted(), Voted(5)};
  for (const int rank : {1, 2, 3}) {
    const ReconfigureMove move = NextMove(rank, voters, {1, 2});
    EXPECT_EQ(move.kind, Turn::kDecide);
    EXPECT_EQ(move.outcome.kind, End::kMismatch);
    EXPECT_EQ(move.outcome.rank, 3);
    EXPECT_EQ(move.outcome.other, 1);
  }
}

TEST(ReconfigureRules, AnybodySaysThatAListedRankIsGone) {
  const Voters voters{Voted(), Dead(), Dead()};
  const ReconfigureMove move = NextMove(0, voters, {0, 2, 1});
  EXPECT_EQ(move.kind, Turn::kDecide);
  EXPECT_EQ(move.outcome.kind, End::kPeerLost);
  EXPECT_EQ(move.outcome.rank, 2);
}

TEST(ReconfigureRules, WishesAreEqualForEqualListsOnly) {
  EXPECT_EQ(WishOf({}), WishOf({}));
  EXPECT_EQ(WishOf({0, 1}), WishOf({0, 1}));
  EXPECT_NE(WishOf({0, 1}), WishOf({1, 0}));
  EXPECT_NE(WishOf({0, 1}), WishOf({0}));
  EXPECT_NE(WishOf({}), WishOf({0}));
}

TEST(ReconfigureRules, TheFirstThatIsListedLeadsAListWithOpenPlaces) {
  const Voters voters{Voted(), Dead(), Voted()};
  const std::vector<int> list{kNewRank, 2, kNewRank, 0};
  EXPECT_EQ(NextMove(2, voters, list).kind, Turn::kLead);
  EXPECT_EQ(NextMove(2, voters, list).members, list);
  EXPECT_EQ(NextMove(0, voters, list).awaited, 2);
  EXPECT_NE(WishOf({0, kNewRank}), WishOf({kNewRank, 0}));
  EXPECT_NE(WishOf({0, kNewRank}), WishOf({0}));
}

TEST(ReconfigureRules, AGroupWithNewcomersCountsIfAllThatLiveHaveIt) {
  for (const Voters& all : {Voters{Voted(WEFT_SUCCESS), Dead(), Voted(WEFT_SUCCESS)},
                            Voters{Dead(), Dead(), Voted(WEFT_SUCCESS)}}) {
    const ReconfigureMove move = NextMoveOfMaking(all, {2, kNewRank, 1});
    EXPECT_EQ(move.kind, Turn::kDecide);
    EXPECT_EQ(move.outcome.kind, End::kGrown);
  }
  const ReconfigureMove lost =
      NextMoveOfMaking({Voted(WEFT_SUCCESS), Voted(WEFT_PEER_LOST), Voted(WEFT_TIMEOUT)}, {0, 1});
  EXPECT_EQ(lost.kind, Turn::kDecide);
  EXPECT_EQ(lost.outcome.kind, End::kNotGrown);
  EXPECT_EQ(lost.outcome.rank, 1);
  EXPECT_EQ(lost.outcome.other, WEFT_PEER_LOST);
  const ReconfigureMove silent = NextMoveOfMaking({Voted(WEFT_TIMEOUT), Dead(), Silent()}, {0});
  EXPECT_EQ(silent.kind, Turn::kWait);
  EXPECT_EQ(silent.awaited, 2);
  const ReconfigureMove nobody =
      NextMoveOfMaking({Dead(), Dead(), Voted(WEFT_SUCCESS)}, {kNewRank, 1, 0});
  EXPECT_EQ(nobody.kind, Turn::kDecide);
  EXPECT_EQ(nobody.outcome.kind, End::kPeerLost);
  EXPECT_EQ(nobody.outcome.rank, 1);
  EXPECT_EQ(nobody.outcome.other, 2);
}

// Memory for a board, zeroed as a segment's is.
class BoardMemory {
 public:
  explicit BoardMemory(int size) : size_(size) { ReconfigureBoard::Create(bytes_, size); }

  ReconfigureBoard board() { return {bytes_, size_}; }

 private:
  int size_;
  alignas(ReconfigureBoard::kAlignment) char bytes_[64 * 1024] = {};
};

TEST(ReconfigureBoard, HasNoAttemptAtFirst) {
  const auto memory = std::make_unique<BoardMemory>(64);
  EXPECT_LE(ReconfigureBoard::Bytes(64), sizeof(BoardMemory));
  const ReconfigureBoard board = memory->board();
  EXPECT_EQ(board.Outcome(), ReconfigureOutcome{});
  for (int rank = 0; rank < 64; ++rank) {
    EXPECT_EQ(board.VoteOf(rank, 1), std::nullopt);
    EXPECT_EQ(board.OfferOf(rank), std::nullopt);
  }
  EXPECT_EQ(board.OfferOf(64), std::nullopt);
}

TEST(ReconfigureBoard, AVoteIsOfItsAttempt) {
  const auto memory = std::make_unique<BoardMemory>(3);
  const ReconfigureBoard board = memory->board();
  board.Vote(1, 1, 11);
  EXPECT_EQ(board.VoteOf(1, 1), 11U);
  EXPECT_EQ(board.VoteOf(1, 2), std::nullopt);
  EXPECT_TRUE(board.HasVoted(1, 1));
  board.Vote(1, 2, 12);
  board.Vote(2, 2, 13);
  EXPECT_EQ(board.VoteOf(1, 1), std::nullopt);
  EXPECT_TRUE(board.HasVoted(1, 1));
  EXPECT_EQ(board.Votes(2), 2);
}

TEST(ReconfigureBoard, AnAttemptEndsOnce) {
  const auto memory = std::make_unique<BoardMemory>(3);
  const ReconfigureBoard board = memory->board();
  const ReconfigureOutcome before = board.Outcome();
  const ReconfigureOutcome lost{.attempt = 1, .kind = End::kPeerLost, .rank = 2, .other = 1};
  EXPECT_TRUE(board.Decide(before, lost));
  EXPECT_FALSE(board.Decide(before, {.attempt = 1, .kind = End::kNewGroup}));
  EXPECT_EQ(board.Outcome(), lost);
  const ReconfigureOutcome group{.attempt = 2, .kind = End::kNewGroup, .rank = 63, .other = 0};
  EXPECT_TRUE(board.Decide(lost, group));
  EXPECT_EQ(board.Outcome(), group);
}

TEST(ReconfigureBoard, AnOfferIsReadAsItWasWritten) {
  const auto memory = std::make_unique<BoardMemory>(64);
  const ReconfigureBoard board = memory->board();
  std::vector<int> members;
  for (int rank = 63; rank >= 0; --rank)
    members.push_back(rank);
  board.Offer(63, {.offset = uint64_t{1} << 40, .group_id = 5, .members = members});
  const auto offer = board.OfferOf(63);
  ASSERT_TRUE(offer.has_value());
  EXPECT_EQ(offer->offset, uint64_t{1} << 40);
  EXPECT_EQ(offer->group_id, 5U);
  EXPECT_EQ(offer->members, members);
}

// Nothing that came from another rank is believed.
TEST(ReconfigureBoard, WhatNoRankCanHaveWrittenIsNoOffer) {
  const auto memory = std::make_unique<BoardMemory>(3);
  const ReconfigureBoard board = memory->board();
  for (const std::vector<int>& members :
       {std::vector<int>{}, {1, 0}, {0, 0}, {0, 3}, {0, 200}, {0, 1, 2, 1}}) {
    board.Offer(0, {.offset = 1, .group_id = 1, .members = members});
    EXPECT_EQ(board.OfferOf(0), std::nullopt);
  }
  board.Offer(0, {.offset = 1, .group_id = 1, .members = {kNewRank, kNewRank}});
  EXPECT_EQ(board.OfferOf(0), std::nullopt);
  board.Offer(0, {.offset = 1, .group_id = 1, .members = {0, 2}});
  EXPECT_TRUE(board.OfferOf(0).has_value());
  board.Offer(0, {.group_id = 1, .members = {kNewRank, 0, 2, kNewRank}});
  ASSERT_TRUE(board.OfferOf(0).has_value());
  EXPECT_EQ(board.OfferOf(0)->members, (std::vector<int>{kNewRank, 0, 2, kNewRank}));
}

TEST(ReconfigureBoard, AllReadTheSameWhoeverIsQuicker) {
  constexpr int kSize = 4;
  for (int round = 0; round < 200; ++round) {
    const auto memory = std::make_unique<BoardMemory>(kSize);
    std::atomic<int> winners{0};
    std::vector<ReconfigureOutcome> read(kSize);
    std::vector<std::thread> ranks;
    ranks.reserve(kSize);
    for (int rank = 0; rank < kSize; ++rank) {
      ranks.emplace_back([&, rank] {
        const ReconfigureBoard board = memory->board();
        board.Vote(rank, 1, kWish);
        const bool won = board.Decide(
            {}, {.attempt = 1, .kind = End::kTimeout, .rank = static_cast<uint8_t>(rank)});
        winners.fetch_add(won ? 1 : 0);
        read[static_cast<size_t>(rank)] = board.Outcome();
      });
    }
    for (std::thread& rank : ranks)
      rank.join();
    EXPECT_EQ(winners.load(), 1);
    for (const ReconfigureOutcome& one : read)
      EXPECT_EQ(one, read[0]);
  }
}

}  // namespace
}  // namespace weft::test::reconfigure_rules_test

// One word and a record per rank: who counts, what gives way, and that all read the same.
#include "comm/node/failure_board.h"

#include <atomic>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"

namespace weft::test::failure_board_test {
namespace {

constexpr int kSize = 8;

// Memory for a board of kSize ranks, zeroed as a segment's is.
class Memory {
 public:
  Memory() { FailureBoard::Create(word_, bytes_, kSize); }

  // As `size` ranks see it.
  FailureBoard board(int size = kSize) { return {word_, bytes_, size}; }

  bool raised() const { return FailureBoard::Raised(word_); }

 private:
  std::atomic<uint64_t> word_{0};
  alignas(64) char bytes_[FailureBoard::Bytes(kSize)] = {};
};

absl::Status Abort(int by) {
  return MakeError(WEFT_ABORTED, {.rank = by}, "aborted");
}

absl::Status Death(int of) {
  return MakeError(WEFT_PEER_LOST, {.rank = of, .pid = 77, .signal = 9, .host = "here"}, "killed");
}

TEST(FailureBoard, TellsWhatWasRaisedInTermsOfTheReadersGroup) {
  Memory memory;
  EXPECT_FALSE(memory.raised());
  EXPECT_TRUE(memory.board().Cause("dp").ok());
  memory.board().Raise(3, MakeError(WEFT_PEER_LOST,
                                    {.rank = 5,
                                     .pid = 4711,
                                     .signal = 9,
                                     .exit_code = -1,
                                     .sequence = 42,
                                     .host = "here",
                                     .group = "elsewhere",
                                     .operation = "all_reduce",
                                     .world_rank = 13},
                                    "rank 5 was killed"));
  EXPECT_TRUE(memory.raised());
  const absl::Status cause = memory.board().Cause("dp");
  EXPECT_EQ(ResultOf(cause), WEFT_PEER_LOST);
  EXPECT_EQ(cause.message(), "rank 5 was killed");
  const ErrorFields fields = FieldsOf(cause);
  EXPECT_EQ(fields.rank, 5);
  EXPECT_EQ(fields.world_rank, 13);
  EXPECT_EQ(fields.pid, 4711);
  EXPECT_EQ(fields.signal, 9);
  EXPECT_EQ(fields.exit_code, -1);
  EXPECT_EQ(fields.sequence, 42);
  EXPECT_EQ(fields.host, "here");
  EXPECT_EQ(fields.group, "dp");
  EXPECT_EQ(fields.operation, "all_reduce");
}

TEST(FailureBoard, CutsWhatIsTooLong) {
  Memory memory;
  memory.board().Raise(
      0, MakeError(WEFT_MISMATCH, {.host = std::string(500, 'h')}, std::string(5000, 'x')));
  const absl::Status cause = memory.board().Cause("g");
  EXPECT_EQ(ResultOf(cause), WEFT_MISMATCH);
  EXPECT_LT(FieldsOf(cause).host.size(), 64u);
  EXPECT_GT(cause.message().size(), 600u);
  EXPECT_LT(cause.message().size(), 640u);
}

TEST(FailureBoard, TheFirstCauseCounts) {
  const absl::Status causes[] = {Death(2), MakeError(WEFT_MISMATCH, "other calls"),
                                 MakeError(WEFT_TIMEOUT, "too late")};
  for (const absl::Status& first : causes) {
    for (const absl::Status& second : causes) {
      Memory memory;
      memory.board().Raise(1, first);
      memory.board().Raise(4, second);
      memory.board().Raise(5, Abort(5));
      EXPECT_EQ(memory.board().Cause("g").message(), first.message());
    }
  }
}

TEST(FailureBoard, AnAbortGivesWayToWhatItDidNotBringAbout) {
  for (const absl::Status& cause :
       {Death(2), MakeError(WEFT_MISMATCH, "other calls"), MakeError(WEFT_TIMEOUT, "too late")}) {
    Memory memory;
    memory.board().Raise(1, Abort(1));
    memory.board().Raise(4, Abort(4));
    EXPECT_EQ(FieldsOf(memory.board().Cause("g")).rank, 1);
    memory.board().Raise(4, cause);
    EXPECT_EQ(memory.board().Cause("g").message(), cause.message());
  }
}

TEST(FailureBoard, AnAbortStandsAgainstItsConsequences) {
  Memory memory;
  memory.board().Raise(1, Abort(1));
  const absl::Status cause = memory.board().Cause("g");
  memory.board().Raise(1, MakeError(WEFT_TIMEOUT, "the aborting rank's own"));
  EXPECT_EQ(memory.board().Cause("g").message(), cause.message());
  memory.board().Raise(4, Death(1));
  EXPECT_EQ(memory.board().Cause("g").message(), cause.message()) << "who aborts may end";
  memory.board().Acknowledge(2);
  memory.board().Raise(4, Death(2));
  EXPECT_EQ(memory.board().Cause("g").message(), cause.message()) << "it had heard of the abort";
  memory.board().Raise(4, MakeError(WEFT_PEER_LOST, {.rank = 3}, "left"));
  EXPECT_EQ(memory.board().Cause("g").message(), cause.message()) << "it left, it did not die";
  memory.board().Raise(4, Death(3));
  EXPECT_EQ(memory.board().Cause("g").message(), "killed");
}

TEST(FailureBoard, DamagedMemoryIsNoCause) {
  Memory memory;
  memory.board().Raise(1, Abort(1));
  // As a board of one rank, which has no rank 1.
  EXPECT_EQ(ResultOf(memory.board(1).Cause("g")), WEFT_CORRUPT);
}

TEST(FailureBoard, AllReadTheSameWhoeverIsQuicker) {
  for (int round = 0; round < 200; ++round) {
    const auto memory = std::make_unique<Memory>();
    std::barrier together(kSize);
    std::vector<std::string> read(kSize);
    std::vector<std::thread> ranks;
    ranks.reserve(kSize);
    for (int rank = 0; rank < kSize; ++rank) {
      ranks.emplace_back([&, rank] {
        const FailureBoard board = memory->board();
        together.arrive_and_wait();
        board.Raise(rank,
                    MakeError(WEFT_MISMATCH, {.rank = rank}, "found by " + std::to_string(rank)));
        read[static_cast<size_t>(rank)] = std::string(board.Cause("g").message());
      });
    }
    for (std::thread& rank : ranks)
      rank.join();
    for (const std::string& one : read)
      EXPECT_EQ(one, read[0]);
    EXPECT_EQ(read[0].substr(0, 9), "found by ");
  }
}

}  // namespace
}  // namespace weft::test::failure_board_test

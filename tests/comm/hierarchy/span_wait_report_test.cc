// What is said while a rank waits for long, by a clock of the test's; the island's memory is this process's.
#include "comm/hierarchy/span_wait_report.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/seams.h"
#include "base/status.h"
#include "comm/agent/island_relay.h"
#include "comm/hierarchy/span_end.h"
#include "comm/hierarchy/span_records.h"
#include "comm/node/make_group.h"

namespace weft::test::span_wait_report_test {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

std::vector<std::string>* told = nullptr;

class KnownAfar : public AfarRanks {
 public:
  bool IsStalled(int world_rank) const override { return world_rank == stalled; }

  std::vector<LinkNote> Links() const override { return notes; }

  int stalled = -1;
  std::vector<LinkNote> notes;
};

// Ranks 1, 3 and 4 of five are on this island; the object is rank 3's.
class WaitsOfAnIsland : public ::testing::Test {
 protected:
  static constexpr int kRank = 3;

  void SetUp() override {
    told = &lines_;
    SetLogCallback([](weft_log_level_t, const char* line, void*) { told->emplace_back(line); },
                   nullptr);
    inner_ = CreateLocalGroups(1, {.name = "s"}).value()[0];
    const ProcessIdentity self = SystemSeams().proc->Self();
    std::vector<GroupMember> members(5);
    for (int rank = 0; rank < 5; ++rank) {
      GroupMember& member = members[static_cast<size_t>(rank)];
      member.rank = rank;
      member.world_rank = rank + 10;
      member.pid = rank == 4 ? child_ : self.pid;
      member.host = "h";
    }
    for (int place = 0; place < 3; ++place)
      records_.push_back(std::make_shared<SpanRecords>(block_, std::vector{1, 3, 4}, place));
    end_ = std::make_shared<SpanEnd>(7, "s", inner_, members, records_[1], &afar_);
    report_ = std::make_shared<SpanWaitReport>("s", 1, kRank, records_[1], end_);
  }

  void TearDown() override {
    SetLogCallback(nullptr, nullptr);
    inner_->Close();
    (void)kill(child_, SIGKILL);
    (void)waitpid(child_, nullptr, 0);
  }

  void Wait(int place, const SpanWait& wait) {
    records_[static_cast<size_t>(place)]->ShowWait(wait);
  }

  // What is said of a wait that lasts until then.
  std::vector<std::string> LinesUntil(int64_t seconds) {
    lines_.clear();
    for (; now_ns_ < seconds * kSecondNs; now_ns_ += kSecondNs / 10)
      (void)report_->Look(now_ns_);
    return lines_;
  }

  static pid_t Child() {
    const pid_t child = fork();
    while (child == 0)
      pause();
    return child;
  }

  const pid_t child_ = Child();
  std::vector<std::string> lines_;
  alignas(64) std::byte block_[64 << 10] = {};
  std::shared_ptr<ProcessGroup> inner_;
  std::vector<std::shared_ptr<SpanRecords>> records_;
  KnownAfar afar_;
  std::shared_ptr<SpanEnd> end_;
  std::shared_ptr<SpanWaitReport> report_;
  int64_t now_ns_ = 0;
};

TEST_F(WaitsOfAnIsland, AreToldAfterTenSecondsAndThenLessOften) {
  ASSERT_LE(SpanRecords::BytesFor(3), sizeof(block_));
  records_[1]->calls().Record(
      {.sequence = 12, .kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 4});
  Wait(1, {.sequence = 12, .awaited = 0});
  EXPECT_TRUE(LinesUntil(9).empty());
  const std::vector<std::string> lines = LinesUntil(45);
  ASSERT_EQ(lines.size(), 3u);  // after 10, 20, 40 s
  EXPECT_NE(
      lines[0].find(
          "all_reduce (sum) of 4 float32 #12 on group s has waited for 10 s on rank 3: rank 0 "
          "(host h, pid "),
      std::string::npos)
      << lines[0];
  // Another call is another wait.
  Wait(1, {.sequence = 13, .awaited = 0});
  EXPECT_TRUE(LinesUntil(50).empty());
  EXPECT_FALSE(report_->Wait().has_value());  // of another island
}

TEST_F(WaitsOfAnIsland, NameWhoIsAtTheEndOfTheWay) {
  Wait(1, {.sequence = 12, .awaited = 1});
  Wait(0, {.sequence = 12, .awaited = 4});
  const std::vector<std::string> lines = LinesUntil(11);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("rank 4 (host h, pid "), std::string::npos) << lines[0];
  EXPECT_NE(lines[0].find("rank 1 waits as well"), std::string::npos) << lines[0];
  ASSERT_TRUE(report_->Wait().has_value());
  EXPECT_EQ(std::string(report_->Wait()->call), "rank 3 in a collective #12 on group s");
}

TEST_F(WaitsOfAnIsland, AStoppedRankIsToldAfterTwoSeconds) {
  ASSERT_EQ(kill(child_, SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child_, &status, WUNTRACED), child_);
  Wait(1, {.sequence = 0, .awaited = 4});
  Wait(2, {.sequence = 12, .awaited = 1});  // an old one: it is stopped
  const std::vector<std::string> lines = LinesUntil(5);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(
      lines[0].find("a message on group s has waited for 2 s on rank 3: rank 4 (host h, pid "),
      std::string::npos)
      << lines[0];
  EXPECT_NE(lines[0].find("process stopped"), std::string::npos) << lines[0];
}

// Of another island, as its speaker knows: the same line as of a rank of this one.
TEST_F(WaitsOfAnIsland, AStoppedNodeIsToldAfterTwoSeconds) {
  afar_.stalled = 12;
  Wait(1, {.sequence = 12, .awaited = 1});
  Wait(0, {.sequence = 12, .awaited = 2});
  const std::vector<std::string> lines = LinesUntil(5);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("has waited for 2 s on rank 3: rank 2 (host h, pid "), std::string::npos);
  EXPECT_NE(lines[0].find(", process does not answer though its machine does: stopped, or in a "
                          "debugger) holds it up; it goes on when that process does"),
            std::string::npos)
      << lines[0];
}

// The link between rank 1, for which this rank waits, and rank 2, which has come.
TEST_F(WaitsOfAnIsland, ALinkIsNamedAndNoRank) {
  LinkNote note{.rank = 11, .peer = 12, .from = "10.0.0.1", .to = "10.0.0.2", .sent_rate = 500'000};
  afar_.notes = {note};
  Wait(1, {.sequence = 12, .awaited = 1});
  Wait(0, {.sequence = 12, .awaited = 2, .met = true});
  std::vector<std::string> lines = LinesUntil(11);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("has waited for 10 s on rank 3: LINK_SLOW: the link from rank 1 (host h) "
                          "at 10.0.0.1 to rank 2 (host h) at 10.0.0.2 carries 0.5 MB/s"),
            std::string::npos)
      << lines[0];
  EXPECT_EQ(lines[0].find("holds it up"), std::string::npos);
  // Rank 2 may be late as far as is known: traffic alone says nothing.
  Wait(0, {.sequence = 12, .awaited = 2});
  lines = LinesUntil(21);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("rank 2 (host h, pid "), std::string::npos) << lines[0];
  note.stalled = true;
  note.unacknowledged_bytes = 4096;
  afar_.notes = {note};
  lines = LinesUntil(41);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("LINK_STALLED: nothing passes from rank 1 (host h) at 10.0.0.1"),
            std::string::npos)
      << lines[0];
}

// Whoever found it, and whomever it names.
TEST_F(WaitsOfAnIsland, DeadlinesAreTracedToALink) {
  FailureRecord record{.group_id = 7,
                       .finder = 10,
                       .culprit = 12,
                       .result = WEFT_TIMEOUT,
                       .call = 12,
                       .operation = "all_reduce",
                       .traced = FailureRecord::kTracedToEnd,
                       .sentence = "late"};
  EXPECT_FALSE(end_->Traced(record).has_value());
  afar_.notes = {{.rank = 14, .peer = 99, .stalled = true},  // of no rank of the group
                 {.rank = 11, .peer = 10, .stalled = true, .from = "10.0.0.1", .to = "10.0.0.2"}};
  const std::optional<FailureRecord> traced = end_->Traced(record);
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(traced->culprit, -1);
  EXPECT_EQ(traced->traced, FailureRecord::kTracedToLink);
  EXPECT_TRUE(traced->sentence.starts_with(
      "all_reduce #12 on group s: LINK_STALLED: nothing passes from rank 1 (host h) at 10.0.0.1 to "
      "rank 0 (host h) at 10.0.0.2"))
      << traced->sentence;
  EXPECT_TRUE(BeatsRecord(*traced, record));
  EXPECT_FALSE(end_->Traced(*traced).has_value());
  record.result = WEFT_ABORTED;
  EXPECT_FALSE(end_->Traced(record).has_value());
}

// A record that names a rank of this island is followed here.
TEST_F(WaitsOfAnIsland, DeadlinesAreTraced) {
  FailureRecord record{
      .group_id = 7, .finder = 10, .culprit = 11, .result = WEFT_TIMEOUT, .sentence = "late"};
  Wait(0, {.sequence = 12, .awaited = 4});
  std::optional<FailureRecord> traced = end_->Traced(record);
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(traced->culprit, 14);
  EXPECT_EQ(traced->traced, FailureRecord::kTracedToEnd);
  EXPECT_TRUE(
      traced->sentence.starts_with("late; that one waits itself, for rank 4 (host h, pid "));
  EXPECT_FALSE(end_->Traced(*traced).has_value());
  // On to another island.
  Wait(2, {.sequence = 12, .awaited = 2});
  traced = end_->Traced(record);
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(traced->culprit, 12);
  EXPECT_EQ(traced->traced, 1);
  EXPECT_FALSE(end_->Traced(*traced).has_value());  // for that one to say
  // Of another island, or no deadline.
  record.culprit = 10;
  EXPECT_FALSE(end_->Traced(record).has_value());
  record.culprit = 14;
  record.result = WEFT_ABORTED;
  EXPECT_FALSE(end_->Traced(record).has_value());
}

// Over islands or on one: each wait is said once, and nobody follows the way any further.
TEST_F(WaitsOfAnIsland, ACircleIsSaidOnce) {
  FailureRecord record{
      .group_id = 7, .finder = 10, .culprit = 11, .result = WEFT_TIMEOUT, .sentence = "late"};
  Wait(0, {.sequence = 12, .awaited = 4});
  Wait(2, {.sequence = 12, .awaited = 1});
  std::optional<FailureRecord> traced = end_->Traced(record);
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(traced->culprit, 11);
  EXPECT_EQ(traced->traced, FailureRecord::kTracedInCircle);
  EXPECT_EQ(traced->sentence,
            "late; that one waits itself, for rank 4, which waits for rank 1: they wait for each "
            "other");
  EXPECT_FALSE(end_->Traced(*traced).has_value());
  // By way of rank 0, of another island, which waits for rank 1 again.
  Wait(2, {.sequence = 12, .awaited = 0});
  traced = end_->Traced(record);
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(traced->culprit, 10);
  EXPECT_EQ(traced->way, (std::vector<int32_t>{11, 14, 10}));
  EXPECT_TRUE(traced->sentence.starts_with(
      "late; that one waits itself, for rank 4, which waits for rank 0 (host h, pid "))
      << traced->sentence;
  FailureRecord back = *traced;
  back.way.push_back(11);  // as that island would say it, if it did not see the circle
  back.culprit = 11;
  traced = end_->Traced(back);
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(traced->traced, FailureRecord::kTracedInCircle);
  EXPECT_LT(traced->sentence.size(), 160u) << traced->sentence;
}

// Both sides have come to what they exchange, so data moves, if slowly.
TEST_F(WaitsOfAnIsland, AnExchangeThatMovesIsNoCircle) {
  FailureRecord record{
      .group_id = 7, .finder = 10, .culprit = 11, .result = WEFT_TIMEOUT, .sentence = "late"};
  for (const bool both : {false, true}) {
    SCOPED_TRACE(both);
    Wait(0, {.sequence = 12, .awaited = 4, .met = both});
    Wait(2, {.sequence = 12, .awaited = 1, .met = true});
    const std::optional<FailureRecord> traced = end_->Traced(record);
    ASSERT_TRUE(traced.has_value());
    EXPECT_EQ(traced->culprit, 14);
    EXPECT_EQ(traced->traced, FailureRecord::kTracedToEnd);
    EXPECT_TRUE(
        traced->sentence.starts_with("late; that one waits itself, for rank 4 (host h, pid "));
    EXPECT_EQ(traced->sentence.find("for each other"), std::string::npos) << traced->sentence;
    EXPECT_EQ(end_->HoldingUp(1), 4);
  }
  // With the finder, of another island, which is not to be blamed for its own deadline.
  Wait(0, {.sequence = 12, .awaited = 0, .met = true});
  std::optional<FailureRecord> traced = end_->Traced(record);
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(traced->culprit, 11);
  EXPECT_EQ(traced->traced, FailureRecord::kTracedToEnd);
  EXPECT_EQ(traced->sentence, "late");
  // With a third rank of another island, whose own waits keep nobody here.
  Wait(0, {.sequence = 12, .awaited = 2, .met = true});
  traced = end_->Traced(record);
  ASSERT_TRUE(traced.has_value());
  EXPECT_EQ(traced->culprit, 12);
  EXPECT_EQ(traced->traced, FailureRecord::kTracedToEnd);
}

TEST_F(WaitsOfAnIsland, ALongWayIsNotSpeltOut) {
  FailureRecord record{
      .group_id = 7, .finder = 10, .culprit = 14, .result = WEFT_TIMEOUT, .sentence = "late"};
  for (int i = 0; i < 20; ++i)
    record.way.push_back(i % 2 == 0 ? 10 : 12);
  record.way.push_back(14);
  Wait(2, {.sequence = 12, .awaited = 1});
  const std::optional<FailureRecord> traced = end_->Traced(record);
  ASSERT_TRUE(traced.has_value());
  EXPECT_NE(traced->sentence.find(", and so on over 22 ranks to rank 1 (host h, pid "),
            std::string::npos)
      << traced->sentence;
  // What cannot be a way is not followed.
  record.way.assign(kFailureWayMax, 10);
  record.way.back() = 14;
  EXPECT_FALSE(end_->Traced(record).has_value());
  record.way = {4711, 14};
  EXPECT_FALSE(end_->Traced(record).has_value());
}

// A message that has ended in between makes it another wait, which no cycle is made of.
TEST_F(WaitsOfAnIsland, MessagesThatEndAreNotOneWait) {
  Wait(1, {.sequence = 0, .awaited = 1});
  (void)LinesUntil(1);
  ASSERT_TRUE(report_->Wait().has_value());
  const ProcessWait before = *report_->Wait();
  (void)LinesUntil(2);
  EXPECT_EQ(report_->Wait()->version, before.version);
  EXPECT_GT(report_->Wait()->looks, before.looks);
  records_[1]->NoteMessageEnded();
  (void)LinesUntil(3);
  EXPECT_NE(report_->Wait()->version, before.version);
  EXPECT_GT(report_->Wait()->since_ns, before.since_ns);
}

}  // namespace
}  // namespace weft::test::span_wait_report_test

// What is recorded of groups over fake nodes of this machine, as processes, and who is named when one waits for long.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/recorder/describe.h"
#include "comm/recorder/dump.h"
#include "tests/comm/hierarchy/fake_node_ranks.h"
#include "tests/support/case_sample.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

std::map<uint32_t, fs::path> DumpsByWriter(const fs::path& directory) {
  std::map<uint32_t, fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    const auto dump = ReadDumpFile(entry.path());
    EXPECT_TRUE(dump.ok()) << dump.status();
    if (!dump.ok()) continue;
    EXPECT_TRUE(found.emplace(dump->writer_rank, entry.path()).second) << entry.path();
  }
  return found;
}

std::string PrintedByWeftctl(const fs::path& dump) {
  FILE* const pipe = popen((WEFTCTL_PATH " dump " + dump.string()).c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof(buffer), pipe))
    text.append(buffer, count);
  EXPECT_EQ(pclose(pipe), 0);
  return text;
}

absl::Status Sum(ProcessGroup& group, std::vector<float>* data) {
  return group.Run({.kind = OpKind::kAllReduce,
                    .dtype = WEFT_FLOAT32,
                    .count = data->size(),
                    .in = data->data(),
                    .out = data->data(),
                    .tag = 77});
}

// Each sends to the next one, and receives from whoever comes.
absl::Status PassOn(ProcessGroup& group) {
  const int size = group.size();
  std::array<int32_t, 4> in{group.rank(), 1, 2, 3};
  std::array<int32_t, 4> out{};
  const Message send{.is_send = true,
                     .in = in.data(),
                     .count = in.size(),
                     .dtype = WEFT_INT32,
                     .peer = (group.rank() + 1) % size,
                     .tag = 5};
  const Message receive{.out = out.data(),
                        .count = out.size(),
                        .dtype = WEFT_INT32,
                        .peer = WEFT_ANY_SOURCE,
                        .tag = 5};
  return group.RunPair(send, receive);
}

class SpanDumps : public ::testing::Test {
 protected:
  void SetUp() override { setenv("WEFT_DUMP_DIR", directory_.path().c_str(), 1); }

  void TearDown() override { unsetenv("WEFT_DUMP_DIR"); }

  const TemporaryDirectory directory_;
};

constexpr int kCalls = 5;

TEST_F(SpanDumps, AKilledRankIsInThoseOfItsNodeUnderItsNumberInTheGroup) {
  RunNodes(
      {4, "0,1,0,1"},
      [](ProcessGroup& group) -> std::string {
        std::vector<float> data(1000, 1);
        for (int i = 0; i < kCalls; ++i) {
          const absl::Status ended = Sum(group, &data);
          if (!ended.ok()) return std::string(ended.message());
        }
        if (const absl::Status passed = PassOn(group); !passed.ok())
          return std::string(passed.message());
        // All have what was sent before anybody is lost.
        if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
        if (group.rank() == 3) {
          usleep(50'000);  // the others wait for it
          (void)kill(getpid(), SIGKILL);
        }
        const absl::Status ended = Sum(group, &data);
        return ResultOf(ended) == WEFT_PEER_LOST ? "" : std::string(ended.message());
      },
      3);
  const std::map<uint32_t, fs::path> dumps = DumpsByWriter(directory_.path());
  ASSERT_EQ(dumps.size(), 3u);
  for (const uint32_t writer : {0u, 1u, 2u}) {
    SCOPED_TRACE(writer);
    ASSERT_TRUE(dumps.contains(writer));
    const RecorderDump dump = ReadDumpFile(dumps.at(writer)).value();
    EXPECT_EQ(dump.group, "s");
    EXPECT_NE(dump.group_id, 0u);
    EXPECT_EQ(dump.result, WEFT_PEER_LOST);
    EXPECT_GT(dump.ticks_per_second, 0u);
    ASSERT_EQ(dump.ranks.size(), 4u);
    for (uint32_t rank = 0; rank < 4; ++rank) {
      const DumpedRank& found = dump.ranks[rank];
      EXPECT_GT(found.pid, 0);
      if (rank % 2 != writer % 2) {
        EXPECT_EQ(found.state, DumpedRank::kElsewhere);
        EXPECT_TRUE(found.entries.empty());
        continue;
      }
      const std::vector<RecordedCall> calls = found.Calls();
      ASSERT_EQ(calls.size(), rank == 3 ? kCalls + 1u : kCalls + 2u) << rank;
      EXPECT_EQ(Describe(calls[0]), "all_reduce (sum) of 1000 float32");
      EXPECT_EQ(calls[0].tag, 77u);
      EXPECT_EQ(calls[0].sequence, 1u);
      EXPECT_EQ(calls[kCalls].state, RecordState::kDone);
      EXPECT_NE(calls[0].signature, 0u);
      const std::vector<RecordedMessage> messages = found.Messages();
      ASSERT_EQ(messages.size(), 2u);
      for (const RecordedMessage& message : messages) {
        EXPECT_EQ(message.state, MessageState::kDone) << Describe(message);
        const int previous = (static_cast<int>(rank) + 3) % 4;
        EXPECT_EQ(Describe(message),
                  message.is_send
                      ? StrCat("send of 4 int32 to rank ", (rank + 1) % 4, " with tag 5")
                      : StrCat("recv of 4 int32 from any rank (rank ", previous, ") with tag 5"));
      }
      const std::vector<LifecycleEvent> events = found.Events();
      ASSERT_FALSE(events.empty());
      EXPECT_EQ(Describe(events[0]), "joined a group of 4 ranks, epoch 1");
    }
    const std::vector<LifecycleEvent> events = dump.ranks[writer].Events();
    EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const LifecycleEvent& event) {
      return event.kind == LifecycleKind::kPeerEnded && event.rank == 3 && event.signal == SIGKILL;
    }));
    const RecordedCall last = dump.ranks[writer].Calls().back();
    EXPECT_EQ(last.progress.phase, CallPhase::kMessages);
    const std::string printed = PrintedByWeftctl(dumps.at(writer));
    EXPECT_NE(printed.find("on another node"), std::string::npos) << printed;
    EXPECT_NE(printed.find(DescribeProgress(last.progress)), std::string::npos) << printed;
  }
  const RecorderDump dump = ReadDumpFile(dumps.at(1)).value();
  EXPECT_EQ(dump.ranks[3].Calls().back().sequence, kCalls + 1u);
}

TEST_F(SpanDumps, APartHasItsOwn) {
  RunNodes({4, "2"}, [](ProcessGroup& group) -> std::string {
    auto part = group.Split(group.rank() % 2, 0, {.name = "p"});
    if (!part.ok()) return std::string(part.status().message());
    std::vector<float> data(group.rank() == 3 ? 19 : 20, 1);
    const absl::Status ended = Sum(**part, &data);
    const bool wrong = group.rank() % 2 == 1;
    if (ended.ok() == wrong) return StrCat("it says: ", std::string(ended.message()));
    const absl::Status met = group.Run({.kind = OpKind::kBarrier});
    (*part)->Close();
    return met.ok() ? "" : std::string(met.message());
  });
  const std::map<uint32_t, fs::path> dumps = DumpsByWriter(directory_.path());
  ASSERT_EQ(dumps.size(), 2u);
  for (const uint32_t writer : {0u, 1u}) {
    const RecorderDump dump = ReadDumpFile(dumps.at(writer)).value();
    EXPECT_EQ(dump.group, "p");
    ASSERT_EQ(dump.ranks.size(), 2u);
    EXPECT_EQ(Describe(dump.ranks[writer].Calls().back()),
              StrCat("all_reduce (sum) of ", writer == 1 ? 19 : 20, " float32"));
    const std::vector<LifecycleEvent> events = dump.ranks[writer].Events();
    EXPECT_TRUE(std::any_of(events.begin(), events.end(), [&](const LifecycleEvent& event) {
      return event.kind == LifecycleKind::kSplit && event.rank == static_cast<int>(writer) * 2 + 1;
    }));
  }
}

TEST(SpanStats, CallsAndBytesAreCounted) {
  RunNodes({3, "0,0,1"}, [](ProcessGroup& group) -> std::string {
    std::vector<float> data(100, 1);
    for (int i = 0; i < 7; ++i)
      if (!Sum(group, &data).ok()) return "a sum failed";
    if (!PassOn(group).ok()) return "the messages failed";
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
    const GroupStats stats = group.stats();
    const bool right = stats.collectives == 8 && stats.messages == 2 && stats.failures == 0 &&
                       stats.in_bytes == 7 * 400 + 16 && stats.out_bytes == 7 * 400 + 16 &&
                       stats.pending == 0 && stats.private_bytes > 0 &&
                       (stats.shared_bytes > 0) == (group.rank() != 1);
    return right
               ? ""
               : StrCat("collectives ", stats.collectives, ", messages ", stats.messages, ", in ",
                        stats.in_bytes, ", out ", stats.out_bytes, ", shared ", stats.shared_bytes);
  });
}

// Most ranks wait for others that wait themselves: for the one that does not come, whichever it is, and wherever.
TEST(SpanDeadlines, WhoHoldsUpAllOthersIsNamedByAll) {
  const CaseSample sample({.every = 1, .sanitized = 5}, TestSeed(1));
  size_t number = 0;
  for (const Nodes& shape : {Nodes{4, "2"}, Nodes{4, "0,1,0,1"}, Nodes{6, "3"}}) {
    for (const size_t count : {size_t{10}, size_t{100'000}}) {
      for (int late = 0; late < shape.size; ++late) {
        if (!sample.Takes(number++)) continue;
        SCOPED_TRACE(StrCat("rank ", late, ", ", count, " elements"));
        RunNodes(
            shape,
            [&](ProcessGroup& group) -> std::string {
              std::vector<float> data(count, 1);
              absl::Status ended;
              if (group.rank() == late) {
                const int64_t until_ns = MonotonicNs() + 20 * kSecondNs;
                while ((ended = group.error()).ok() && MonotonicNs() < until_ns)
                  usleep(5'000);
              } else {
                ended = Sum(group, &data);
              }
              const bool right = ResultOf(ended) == WEFT_TIMEOUT && FieldsOf(ended).rank == late;
              return right ? "" : StrCat("it says: ", std::string(ended.message()));
            },
            -1, kSecondNs / 2);
      }
    }
  }
}

// The same, where one is stopped in the middle of what it does.
TEST(SpanDeadlines, AStoppedRankIsNamed) {
  RunNodes(
      {4, "2"},
      [&](ProcessGroup& group) -> std::string {
        std::vector<float> data(1000, 1);
        std::array<int32_t, 4> pids{};
        const int32_t own = getpid();
        if (!group
                 .Run({.kind = OpKind::kAllGather,
                       .dtype = WEFT_INT32,
                       .count = 1,
                       .in = &own,
                       .out = pids.data()})
                 .ok()) {
          return "the pids";
        }
        if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
        if (group.rank() == 2) {
          usleep(100'000);  // all have the pids, and are in what follows
          (void)kill(pids[3], SIGSTOP);
        }
        absl::Status ended;
        const int64_t until_ns = MonotonicNs() + 20 * kSecondNs;
        while (ended.ok() && MonotonicNs() < until_ns)
          ended = Sum(group, &data);
        if (group.rank() == 2) (void)kill(pids[3], SIGCONT);
        const bool told =
            group.rank() == 3 || ended.message().find("process stopped") != absl::string_view::npos;
        const bool right = FieldsOf(ended).rank == 3 && told;
        return right ? "" : StrCat("it says: ", std::string(ended.message()));
      },
      -1, kSecondNs);
}

}  // namespace
}  // namespace weft::test

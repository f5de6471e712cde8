// With WEFT_DUMP_DIR set a failed operation leaves a recorder dump per rank, which weftctl prints.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/kernels/custom_op.h"
#include "comm/node/make_group.h"
#include "comm/recorder/describe.h"
#include "comm/recorder/dump.h"
#include "directory_store.h"
#include "tests/support/forked_ranks.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

std::string Text(const absl::Status& status) {
  return std::string(status.message());
}

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

std::string PrintedByWeftctl(const fs::path& dump, const std::string& options = "") {
  FILE* const pipe = popen((WEFTCTL_PATH " dump " + options + " " + dump.string()).c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof(buffer), pipe))
    text.append(buffer, count);
  EXPECT_EQ(pclose(pipe), 0);
  return text;
}

// Each test sets its own directory in forked children, which read the environment anew.
class FailureDumps : public ::testing::Test {
 protected:
  void OnRanks(int size, int victim, const std::function<std::string(ProcessGroup&)>& body) {
    const TemporaryDirectory keys;
    const auto ends = RunForkedRanks(size, 60, [&](int rank) -> std::string {
      setenv("WEFT_DUMP_DIR", dump_directory().c_str(), 1);
      DirectoryStore store(keys.path());
      auto group = MakeNodeGroup(&store, rank, size, {.name = "dp", .timeout_ns = 30'000'000'000});
      if (!group.ok()) return Text(group.status());
      std::string problem = body(**group);
      (*group)->Close();
      return problem;
    });
    for (int rank = 0; rank < size; ++rank) {
      const RankEnd& end = ends[static_cast<size_t>(rank)];
      if (rank == victim) {
        EXPECT_TRUE(WIFSIGNALED(end.wait_status));
        victim_pid_ = end.pid;
      } else {
        EXPECT_EQ(end.Problem(), "") << "rank " << rank;
      }
    }
  }

  virtual fs::path dump_directory() const { return directory_.path(); }

  const TemporaryDirectory directory_;
  int victim_pid_ = 0;
};

std::string LoopUntilItFails(ProcessGroup& group, int victim) {
  std::vector<float> data(1000);
  Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = data.size()};
  call.in = call.out = data.data();
  absl::Status status;
  for (int i = 0; status.ok() && i < 1'000'000; ++i) {
    if (group.rank() == victim && i == 40) kill(getpid(), SIGKILL);
    status = group.Run(call);
  }
  if (ResultOf(status) != WEFT_PEER_LOST) return "got: " + Text(status);
  return FieldsOf(status).rank == victim ? "" : "blames: " + Text(status);
}

TEST_F(FailureDumps, EverySurvivorOfAKilledRankLeavesOne) {
  constexpr int kLost = 1;
  OnRanks(3, kLost, [](ProcessGroup& group) { return LoopUntilItFails(group, kLost); });
  const std::map<uint32_t, fs::path> dumps = DumpsByWriter(directory_.path());
  ASSERT_EQ(dumps.size(), 2u);
  for (const uint32_t writer : {0u, 2u}) {
    ASSERT_TRUE(dumps.contains(writer));
    const RecorderDump dump = ReadDumpFile(dumps.at(writer)).value();
    EXPECT_EQ(dump.group, "dp");
    EXPECT_EQ(dump.result, WEFT_PEER_LOST);
    EXPECT_NE(dump.reason.find("killed by signal 9"), std::string::npos) << dump.reason;
    EXPECT_GT(dump.wall_time_ns, 0);
    EXPECT_GT(dump.ticks_per_second, 0u);
    ASSERT_EQ(dump.ranks.size(), 3u);
    EXPECT_EQ(dump.ranks[kLost].pid, victim_pid_);
    // The barrier that made the group is #1, so 40 all_reduces end with #41.
    ASSERT_FALSE(dump.ranks[kLost].Calls().empty());
    EXPECT_EQ(dump.ranks[kLost].Calls().back().sequence, 41u);
    // The other survivor may learn of it between two calls, one of them was in #42.
    const bool failed = dump.ranks[0].Calls().back().state == RecordState::kFailed ||
                        dump.ranks[2].Calls().back().state == RecordState::kFailed;
    EXPECT_TRUE(failed);

    const std::string printed = PrintedByWeftctl(dumps.at(writer));
    const std::string line =
        "rank 1: pid " + std::to_string(victim_pid_) + ", joined, last call all_reduce #41";
    EXPECT_NE(printed.find(line), std::string::npos) << printed;
    EXPECT_NE(printed.find("rank 1 stopped at #41, the group's newest call is #42"),
              std::string::npos)
        << printed;
    EXPECT_NE(printed.find("age [ms]"), std::string::npos) << printed;
  }
}

TEST_F(FailureDumps, DisagreeingRanksAreListed) {
  OnRanks(3, -1, [](ProcessGroup& group) -> std::string {
    std::vector<float> in(8), out(8);
    Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 8};
    if (group.rank() == 2) call.count = 7;
    call.in = in.data();
    call.out = out.data();
    const absl::Status status = group.Run(call);
    return ResultOf(status) == WEFT_MISMATCH ? "" : "got: " + Text(status);
  });
  const std::map<uint32_t, fs::path> dumps = DumpsByWriter(directory_.path());
  ASSERT_EQ(dumps.size(), 3u);
  const std::string printed = PrintedByWeftctl(dumps.at(0));
  EXPECT_NE(printed.find("#2: rank 2 called all_reduce (sum) of 7 float32; ranks 0, 1 called "
                         "all_reduce (sum) of 8 float32"),
            std::string::npos)
      << printed;
  const std::string json = PrintedByWeftctl(dumps.at(0), "--json");
  EXPECT_NE(json.find("\"result\": 101"), std::string::npos) << json;
  EXPECT_NE(json.find("all_reduce (sum) of 7 float32"), std::string::npos) << json;
}

// How often the process has gone to sleep by itself; -1 if that cannot be known.
int64_t SleepsOf(int pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    int64_t count = 0;
    if (word == "voluntary_ctxt_switches:" && status >> count) return count;
  }
  return -1;
}

// Kills a rank once it has waited for so long that it has told for whom: at its first look, which is at every sleep but 5 ms
// after the one before.
bool KillWhenItWaits(int pid) {
  constexpr int64_t kSleeps = 10;
  const int64_t before = SleepsOf(pid);
  const int64_t begun_ns = MonotonicNs();
  while (SleepsOf(pid) < before + kSleeps) {
    if (MonotonicNs() - begun_ns > 30'000'000'000) return false;
    poll(nullptr, 0, 1);
  }
  return kill(pid, SIGKILL) == 0;
}

// Pids by rank.
std::vector<int> PidsOf(ProcessGroup& group) {
  const int own = getpid();
  std::vector<int> pids(static_cast<size_t>(group.size()));
  Collective call{.kind = OpKind::kAllGather, .dtype = WEFT_INT32, .count = 1};
  call.in = &own;
  call.out = pids.data();
  if (!group.Run(call).ok()) pids.clear();
  return pids;
}

constexpr int kVictim = 2;

// A reduction that stops in the middle of an operation to kill a rank.
struct KillingSum {
  static constexpr int kCalls = 500;  // before it does

  int victim_pid = 0;  // 0: it is like any other
  int calls = 0;
  bool killed = false;

  static void Run(const void* left, const void* right, void* out, size_t count, weft_dtype_t,
                  void* user) {
    auto* const self = static_cast<KillingSum*>(user);
    if (self->victim_pid != 0 && ++self->calls == kCalls) {
      self->killed = KillWhenItWaits(self->victim_pid);
    }
    const auto* const a = static_cast<const float*>(left);
    const auto* const b = static_cast<const float*>(right);
    for (size_t i = 0; i < count; ++i)
      static_cast<float*>(out)[i] = a[i] + b[i];
  }
};

TEST_F(FailureDumps, ShowsWhereAKilledRankWaitedInAStagedOperation) {
  constexpr int kKiller = 1;
  OnRanks(3, kVictim, [](ProcessGroup& group) -> std::string {
    const std::vector<int> pids = PidsOf(group);
    if (pids.empty()) return "the pids were not exchanged";
    KillingSum sum;
    if (group.rank() == kKiller) sum.victim_pid = pids[kVictim];
    std::vector<float> in(1 << 20);
    std::vector<float> out(in.size());
    Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .op = kOpUser};
    call.count = in.size();
    call.in = in.data();
    call.out = out.data();
    call.custom = std::make_shared<CustomOp>(
        CustomOp{.function = KillingSum::Run, .user = &sum, .name = "sum"});
    const absl::Status status = group.Run(call);
    if (ResultOf(status) != WEFT_PEER_LOST) return "got: " + Text(status);
    return group.rank() != kKiller || sum.killed ? "" : "the victim did not wait";
  });
  const std::map<uint32_t, fs::path> dumps = DumpsByWriter(directory_.path());
  ASSERT_EQ(dumps.size(), 2u);
  for (const auto& [writer, path] : dumps) {
    const std::vector<RecordedCall> calls = ReadDumpFile(path).value().ranks[kVictim].Calls();
    ASSERT_FALSE(calls.empty());
    const CallProgress& progress = calls.back().progress;
    EXPECT_EQ(progress.phase, CallPhase::kGathering) << DescribeProgress(progress);
    EXPECT_EQ(progress.waited_for, kKiller) << DescribeProgress(progress);
    EXPECT_GT(progress.round, 1u);
    EXPECT_GT(progress.rounds, progress.round);
    const std::string printed = PrintedByWeftctl(path);
    EXPECT_NE(printed.find(DescribeProgress(progress)), std::string::npos) << printed;
    const std::string json = PrintedByWeftctl(path, "--json");
    EXPECT_NE(json.find("\"waits_for\": 1"), std::string::npos) << json;
  }
}

// Small calls show nothing of themselves until they wait.
TEST_F(FailureDumps, ShowsForWhomAKilledRankWaitedInASmallCall) {
  OnRanks(3, kVictim, [](ProcessGroup& group) -> std::string {
    const std::vector<int> pids = PidsOf(group);
    if (pids.empty()) return "the pids were not exchanged";
    if (group.rank() == 1 && !KillWhenItWaits(pids[kVictim])) return "the victim did not wait";
    // It has arrived, so the barrier that it dies in may still end well.
    absl::Status status;
    for (int i = 0; i < 2 && status.ok(); ++i)
      status = group.Run({.kind = OpKind::kBarrier});
    return ResultOf(status) == WEFT_PEER_LOST ? "" : "got: " + Text(status);
  });
  const std::map<uint32_t, fs::path> dumps = DumpsByWriter(directory_.path());
  ASSERT_EQ(dumps.size(), 2u);
  for (const auto& [writer, path] : dumps) {
    const std::vector<RecordedCall> calls = ReadDumpFile(path).value().ranks[kVictim].Calls();
    ASSERT_FALSE(calls.empty());
    const CallProgress& progress = calls.back().progress;
    EXPECT_EQ(progress.phase, CallPhase::kArriving) << DescribeProgress(progress);
    EXPECT_NE(progress.waited_for, CallProgress::kNobody);  // rank 1, or with a counter any
    EXPECT_NE(progress.waited_for, kVictim);
    EXPECT_EQ(calls.front().progress, CallProgress{}) << "it is done";
  }
}

// On a busy machine waits last long enough to be reported.
bool IsNoNotice(const LifecycleEvent& event) {
  return event.kind != LifecycleKind::kStalled && event.kind != LifecycleKind::kStuck;
}

bool HasEvent(const DumpedRank& rank, LifecycleKind kind, int about) {
  const std::vector<LifecycleEvent> events = rank.Events();
  return std::any_of(events.begin(), events.end(), [&](const LifecycleEvent& event) {
    return event.kind == kind && event.rank == about;
  });
}

Message MessageOf(bool is_send, char* data, int peer, uint64_t tag) {
  return {.is_send = is_send,
          .in = is_send ? data : nullptr,
          .out = is_send ? nullptr : data,
          .count = 8,
          .peer = peer,
          .tag = tag};
}

constexpr uint64_t kLastTag = 8;

// It has sent and received, and waits for a message that rank 0 never sends.
absl::Status WaitInVain(ProcessGroup& group) {
  char data[8] = {};
  absl::Status status = group.Run(MessageOf(true, data, 1, 5));
  if (status.ok()) status = group.Run(MessageOf(false, data, WEFT_ANY_SOURCE, 6));
  return status.ok() ? group.Run(MessageOf(false, data, 0, 7)) : status;
}

// Both survivors have a receive under way when the victim is killed: rank 0 lets rank 1 go on once it has posted its own.
std::string SurviveTheOneThatWaits(ProcessGroup& group, int victim_pid) {
  char data[8] = {}, last[8] = {};
  absl::Status status;
  if (group.rank() == 1) status = group.Run(MessageOf(false, data, kVictim, 5));
  if (!status.ok()) return Text(status);
  const absl::StatusOr<WorkRef> work = group.Start(MessageOf(false, last, kVictim, kLastTag));
  if (!work.ok()) return Text(work.status());
  status = group.Run(MessageOf(group.rank() == 0, data, 1 - group.rank(), 9));
  if (status.ok() && group.rank() == 1) {
    status = group.Run(MessageOf(true, data, kVictim, 6));
    if (status.ok() && !KillWhenItWaits(victim_pid)) return "the victim did not wait";
  }
  if (!status.ok()) return Text(status);
  status = (*work)->Wait(0);
  return ResultOf(status) == WEFT_PEER_LOST ? "" : "got: " + Text(status);
}

TEST_F(FailureDumps, ShowsTheLastMessagesOfAKilledRankAndWhatHasHappened) {
  OnRanks(3, kVictim, [](ProcessGroup& group) -> std::string {
    const std::vector<int> pids = PidsOf(group);
    if (pids.empty()) return "the pids were not exchanged";
    if (group.rank() == kVictim) return Text(WaitInVain(group));
    return SurviveTheOneThatWaits(group, pids[kVictim]);
  });
  const std::map<uint32_t, fs::path> dumps = DumpsByWriter(directory_.path());
  ASSERT_EQ(dumps.size(), 2u);
  int finders = 0;
  for (const auto& [writer, path] : dumps) {
    const RecorderDump dump = ReadDumpFile(path).value();
    const std::vector<RecordedMessage> messages = dump.ranks[kVictim].Messages();
    ASSERT_EQ(messages.size(), 3u);
    EXPECT_EQ(Describe(messages[0]), "send of 8 uint8 to rank 1 with tag 5");
    EXPECT_EQ(messages[0].state, MessageState::kDone);
    EXPECT_EQ(Describe(messages[1]), "recv of 8 uint8 from any rank (rank 1) with tag 6");
    EXPECT_EQ(messages[1].state, MessageState::kDone);
    EXPECT_EQ(Describe(messages[2]), "recv of 8 uint8 from rank 0 with tag 7");
    EXPECT_EQ(messages[2].state, MessageState::kIssued);
    EXPECT_GE(messages[2].ticks, messages[1].ticks);
    const DumpedRank& own = dump.ranks[writer];
    const std::vector<RecordedMessage> of_writer = own.Messages();
    const auto last = std::find_if(of_writer.begin(), of_writer.end(),
                                   [](const auto& message) { return message.tag == kLastTag; });
    ASSERT_NE(last, of_writer.end());
    EXPECT_EQ(last->state, MessageState::kIssued) << "as when the group ended";
    EXPECT_TRUE(HasEvent(own, LifecycleKind::kJoined, -1));
    EXPECT_TRUE(HasEvent(own, LifecycleKind::kAcknowledged, kVictim));
    const bool found = HasEvent(own, LifecycleKind::kPeerEnded, kVictim);
    EXPECT_EQ(HasEvent(own, LifecycleKind::kFailed, kVictim), found);
    if (found) ++finders;
    const std::vector<LifecycleEvent> of_victim = dump.ranks[kVictim].Events();
    EXPECT_EQ(std::count_if(of_victim.begin(), of_victim.end(), IsNoNotice), 1)
        << "it joined, and was killed";
    const std::string printed = PrintedByWeftctl(path);
    EXPECT_NE(printed.find("recv of 8 uint8 from rank 0 with tag 7"), std::string::npos) << printed;
    EXPECT_NE(printed.find("joined a group of 3 ranks, epoch 1"), std::string::npos) << printed;
    const std::string json = PrintedByWeftctl(path, "--json");
    EXPECT_NE(json.find("\"kind\": \"acknowledged\""), std::string::npos) << json;
  }
  EXPECT_EQ(finders, 1) << "one rank is the first to say so";
}

TEST_F(FailureDumps, NameTheGroupThatAPartWasSplitFrom) {
  OnRanks(2, -1, [](ProcessGroup& group) -> std::string {
    const auto part = group.Split(0, -group.rank(), {.name = "part"});
    if (!part.ok()) return Text(part.status());
    for (ProcessGroup* const ended : {part->get(), &group}) {
      ended->Abort("the test wants a dump");
      if (ended->Run({.kind = OpKind::kBarrier}).ok()) return "it goes on";
    }
    (*part)->Close();
    return "";
  });
  std::map<std::string, std::vector<RecorderDump>> dumps;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_.path())) {
    const RecorderDump dump = ReadDumpFile(entry.path()).value();
    dumps[dump.group].push_back(dump);
  }
  ASSERT_EQ(dumps["part"].size(), 2u);
  ASSERT_EQ(dumps["dp"].size(), 2u);
  const uint64_t parent_id = dumps["dp"][0].group_id;
  EXPECT_NE(parent_id, 0u);
  for (const RecorderDump& dump : dumps["part"]) {
    EXPECT_NE(dump.group_id, parent_id);
    const std::vector<LifecycleEvent> events = dump.ranks[dump.writer_rank].Events();
    ASSERT_GE(events.size(), 2u);
    EXPECT_EQ(events[1].kind, LifecycleKind::kSplit);
    EXPECT_EQ(events[1].rank, 1 - static_cast<int>(dump.writer_rank));
    EXPECT_EQ(events[1].other, parent_id);
  }
}

class UnwritableDirectory : public FailureDumps {
 protected:
  fs::path dump_directory() const override { return directory_.path() / "missing"; }
};

void CountWarnings(weft_log_level_t level, const char* message, void* user) {
  const bool ours =
      level == WEFT_LOG_WARN && std::string(message).find("recorder dump to") != std::string::npos;
  if (ours) ++*static_cast<int*>(user);
}

TEST_F(UnwritableDirectory, IsOneWarningAndTheCauseIsStillReported) {
  OnRanks(2, 1, [](ProcessGroup& group) -> std::string {
    int warnings = 0;
    SetLogCallback(CountWarnings, &warnings);
    std::string problem = LoopUntilItFails(group, 1);
    (void)group.Run({.kind = OpKind::kBarrier});
    SetLogCallback(nullptr, nullptr);
    if (problem.empty() && warnings != 1) problem = std::to_string(warnings) + " warnings";
    return problem;
  });
  EXPECT_TRUE(fs::is_empty(directory_.path()));
}

}  // namespace
}  // namespace weft::test

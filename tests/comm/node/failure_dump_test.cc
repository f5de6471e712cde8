// With WEFT_DUMP_DIR set a failed operation leaves a recorder dump per rank, which weftctl prints.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "comm/node/make_group.h"
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
  constexpr int kVictim = 1;
  OnRanks(3, kVictim, [](ProcessGroup& group) { return LoopUntilItFails(group, kVictim); });
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
    EXPECT_EQ(dump.ranks[kVictim].pid, victim_pid_);
    // The barrier that made the group is #1, so 40 all_reduces end with #41.
    ASSERT_FALSE(dump.ranks[kVictim].Calls().empty());
    EXPECT_EQ(dump.ranks[kVictim].Calls().back().sequence, 41u);
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

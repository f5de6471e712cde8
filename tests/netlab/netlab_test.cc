// The network that tests bring along, by itself, and launched ranks that meet over it.
#include "tests/support/netlab.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "base/wait.h"
#include "tests/netlab/launched_over_netlab.h"

namespace weft::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// bash's way to connect: one program that every machine has.
std::vector<std::string> ConnectTo(const std::string& address, int port) {
  return {"timeout", "2", "bash", "-c",
          StrCat("exec 3<>/dev/tcp/", address, "/", port, " && echo connected && cat <&3")};
}

// Says "<host name> has <bytes>" to whoever connects, once.
std::vector<std::string> ServeOnce(int port, int bytes) {
  return {"python3", "-c",
          StrCat("import socket\n"
                 "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
                 "s.bind(('0.0.0.0', ",
                 port,
                 ")); s.listen()\n"
                 "print('listening', flush=True)\n"
                 "c, peer = s.accept(); print('from', peer[0], flush=True)\n"
                 "c.sendall(b'x' * ",
                 bytes, ")\n")};
}

TEST_F(NetlabTest, NodesReachEachOtherAndCountersMove) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 3}));
  if (lab_ == nullptr) return;
  const auto server = lab_->Spawn(1, ServeOnce(5000, 1'000'003));
  ASSERT_TRUE(server->WaitForOutput("listening", Soon())) << server->Output();
  const auto before = lab_->Counters(1);
  ASSERT_TRUE(before.ok()) << before.status();
  const std::string said = OutputOf(2, ConnectTo(Netlab::Address(1), 5000));
  EXPECT_THAT(said, HasSubstr("connected"));
  EXPECT_GE(said.size(), 1'000'003u);
  EXPECT_EQ(server->Wait(Soon()), 0);
  EXPECT_THAT(server->Output(), HasSubstr(StrCat("from ", Netlab::Address(2))));
  const auto after = lab_->Counters(1);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_GE(after->sent_bytes - before->sent_bytes, 1'000'003u);
  EXPECT_GT(after->received_bytes, before->received_bytes);
}

TEST_F(NetlabTest, NodesHaveNamesAndInterfacesOfTheirOwn) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2, .interfaces = 2}));
  if (lab_ == nullptr) return;
  EXPECT_EQ(OutputOf(1, {"uname", "-n"}), "node1\n");
  const std::string shown = OutputOf(1, {"cat", "/proc/self/net/fib_trie"});
  EXPECT_THAT(shown, HasSubstr(Netlab::Address(1, 0)));
  EXPECT_THAT(shown, HasSubstr(Netlab::Address(1, 1)));
  EXPECT_EQ(shown.find(StrCat(Netlab::Address(0, 0), "\n")), std::string::npos);
}

TEST_F(NetlabTest, ARateIsSetInBothDirectionsAndGone) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  const std::vector<std::string> shape = {"tc", "qdisc", "show", "dev", "eth0"};
  ASSERT_EQ(lab_->SetRate(1, 80'000'000), absl::OkStatus());
  EXPECT_THAT(OutputOf(1, shape), HasSubstr("rate 80Mbit"));
  EXPECT_EQ(OutputOf(0, shape).find("tbf"), std::string::npos);
  // 4 MB take 0.4 s less what the bucket holds; never less than a quarter of that, however quick the machine is.
  const auto server = lab_->Spawn(1, ServeOnce(5000, 4'000'000));
  ASSERT_TRUE(server->WaitForOutput("listening", Soon())) << server->Output();
  const int64_t begun_ns = MonotonicNs();
  EXPECT_GE(OutputOf(0, ConnectTo(Netlab::Address(1), 5000)).size(), 4'000'000u);
  EXPECT_GE(MonotonicNs() - begun_ns, kSecondNs / 10);
  ASSERT_EQ(lab_->SetRate(1, 0), absl::OkStatus());
  EXPECT_EQ(OutputOf(1, shape).find("tbf"), std::string::npos);
}

TEST_F(NetlabTest, NothingArrivesWhileALinkIsDown) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  const auto server = lab_->Spawn(1, ServeOnce(5000, 3));
  ASSERT_TRUE(server->WaitForOutput("listening", Soon())) << server->Output();
  ASSERT_EQ(lab_->SetLinkUp(1, false), absl::OkStatus());
  EXPECT_EQ(OutputOf(0, ConnectTo(Netlab::Address(1), 5000)).find("connected"), std::string::npos);
  EXPECT_EQ(server->Output(), "listening\n");
  ASSERT_EQ(lab_->SetLinkUp(1, true), absl::OkStatus());
  // The kernel may still hold that the address has not answered, and answers that itself.
  std::string said;
  for (int attempt = 0; attempt < 20 && said.find("connected") == std::string::npos; ++attempt)
    said = OutputOf(0, ConnectTo(Netlab::Address(1), 5000));
  EXPECT_THAT(said, HasSubstr("connected"));
}

TEST_F(NetlabTest, FramesAreLostDoubledAndLate) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  const absl::Status set =
      lab_->SetFaults(1, {.loss = 0.05, .doubled = 0.05, .late = 0.05, .late_ms = 3, .seed = 1});
  if (!set.ok()) GTEST_SKIP() << std::string(set.message());
  // TCP may send a first segment that is lost again only after the two seconds of an attempt.
  std::string said;
  for (int attempt = 0; attempt < 8 && said.size() < 1'000'003; ++attempt) {
    const int port = 5000 + attempt;
    const auto server = lab_->Spawn(1, ServeOnce(port, 1'000'003));
    ASSERT_TRUE(server->WaitForOutput("listening", Soon())) << server->Output();
    said = OutputOf(0, ConnectTo(Netlab::Address(1), port));
  }
  EXPECT_GE(said.size(), 1'000'003u);
  const FrameCounts& counts = lab_->Faults(1);
  EXPECT_GT(counts.forwarded.load(), 600u);
  EXPECT_GT(counts.lost.load(), 10u);
  EXPECT_GT(counts.doubled.load(), 10u);
  EXPECT_GT(counts.late.load(), 10u);
}

TEST_F(NetlabTest, ADelayIsSetWhereTheKernelHasIt) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  const absl::Status set = lab_->SetDelay(0, 30);
  if (!set.ok()) GTEST_SKIP() << std::string(set.message());
  EXPECT_THAT(OutputOf(0, {"tc", "qdisc", "show", "dev", "eth0"}), HasSubstr("delay 30ms"));
}

TEST_F(NetlabTest, WhatItLeavesRunningEndsWithIt) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 1}));
  if (lab_ == nullptr) return;
  auto process = lab_->Spawn(0, {"sleep", "1000"});
  const pid_t pid = process->pid();
  EXPECT_EQ(process->Wait(MonotonicNs()), -1);
  process->Kill(SIGTERM);
  EXPECT_EQ(process->Wait(Soon()), 128 + SIGTERM);
  process = lab_->Spawn(0, {"sleep", "1000"});
  const pid_t second = process->pid();
  process.reset();
  EXPECT_NE(kill(pid, 0), 0);
  EXPECT_NE(kill(second, 0), 0);
  EXPECT_EQ(lab_->Spawn(0, {"/proc/none/program"})->Wait(Soon()), 127);
}

// However it ends: here with everything still running.
TEST_F(NetlabTest, NothingOutlivesTheProcessThatHasIt) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 1}));
  if (lab_ == nullptr) return;
  lab_.reset();
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const auto lab = Netlab::Make({.nodes = 2});
    const auto process = (*lab)->Spawn(1, {"sleep", "1000"});
    raise(SIGKILL);
  }
  // The holders, the program, and their parent are ours now, and end.
  int ended = 0;
  const int64_t deadline_ns = Soon();
  while (MonotonicNs() < deadline_ns) {
    const pid_t found = waitpid(-1, nullptr, WNOHANG);
    if (found > 0) ++ended;
    if (found < 0) break;
    if (found == 0) poll(nullptr, 0, 5);
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_GE(ended, 4);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

class LaunchedOverNetlab : public NodesOverNetlab {
 protected:
  // Node 1 is sent what some sums need, and nobody ends meanwhile.
  void ExpectSumsGoOn(const Runs& runs) {
    constexpr uint64_t kSums = uint64_t{3} * 800'024;
    const auto before = lab_->Counters(1);
    ASSERT_TRUE(before.ok()) << before.status();
    const int64_t deadline_ns = Soon();
    uint64_t moved = 0;
    while (moved < kSums && MonotonicNs() < deadline_ns) {
      for (const auto& run : runs)
        ASSERT_EQ(run->Wait(MonotonicNs() + kSecondNs / 20), -1) << run->Output();
      const auto now = lab_->Counters(1);
      ASSERT_TRUE(now.ok()) << now.status();
      moved = now->received_bytes - before->received_bytes;
    }
    EXPECT_GE(moved, kSums) << "nothing moves";
  }

  // All ranks of all nodes meet and have the same sum.
  void ExpectMeeting(const std::vector<int>& ranks) {
    SCOPED_TRACE(StrCat(ranks.size(), " nodes, ", ranks[0], " ranks on the first"));
    int size = 0;
    for (const int count : ranks)
      size += count;
    const Runs runs = Launch(ranks, {MEETING_RANKS});
    int rank = 0;
    for (size_t node = 0; node < runs.size(); ++node) {
      EXPECT_EQ(runs[node]->Wait(Soon()), 0);
      const std::string output = runs[node]->Output();
      for (int i = 0; i < ranks[node]; ++i, ++rank) {
        EXPECT_THAT(output,
                    HasSubstr(StrCat("rank ", rank, " of ", size, " on node", node, ": island ",
                                     node, " of ", ranks.size(), ", sum ", size * (size - 1) / 2)));
      }
    }
  }
};

TEST_F(LaunchedOverNetlab, RanksOfSeveralNodesMeetAndSum) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 3}));
  if (lab_ == nullptr) return;
  const auto before = lab_->Counters(1);
  ASSERT_TRUE(before.ok()) << before.status();
  ExpectMeeting({1, 1});
  ExpectMeeting({2, 2});
  ExpectMeeting({1, 1, 1});
  const auto after = lab_->Counters(1);
  ASSERT_TRUE(after.ok()) << after.status();
  // What it was sent for the sums is 800,024 bytes each time.
  EXPECT_GE(after->received_bytes - before->received_bytes, 3 * 800'024u / 2);
}

// The choice is the interface's that leads somewhere, though the system lists the other one first.
TEST_F(LaunchedOverNetlab, AnInterfaceWithoutCarrierIsNotChosen) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2, .interfaces = 2}));
  if (lab_ == nullptr) return;
  for (const int node : {0, 1})
    ASSERT_EQ(lab_->SetLinkUp(node, false, 0), absl::OkStatus());
  const std::string master = Netlab::Address(0, 1);
  const Runs runs = Launch({1, 1}, {MEETING_RANKS}, {{"WEFT_LOG", "info"}}, {master, master});
  for (int node = 0; node < 2; ++node) {
    const auto& run = runs[static_cast<size_t>(node)];
    EXPECT_EQ(run->Wait(Soon()), 0) << run->Output();
    EXPECT_THAT(run->Output(), HasSubstr("sum 1"));
    EXPECT_THAT(run->Output(),
                HasSubstr(StrCat("others reach this machine at ", Netlab::Address(node, 1),
                                 ", interface eth1, chosen automatically")));
  }
}

// "fe80::1%eth0": each machine has its own name for the interface to the link that both are on.
TEST_F(LaunchedOverNetlab, NodesWithLinkLocalAddressesAloneMeet) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  for (const std::vector<std::string>& change : {std::vector<std::string>{"set", "eth0", "down"},
                                                 {"set", "eth0", "name", "net9"},
                                                 {"set", "net9", "up"}}) {
    std::vector<std::string> words = {"ip", "link"};
    words.insert(words.end(), change.begin(), change.end());
    ASSERT_EQ(OutputOf(1, words), "");
  }
  const std::string names[] = {"eth0", "net9"};
  std::string address;
  for (int node = 1; node >= 0; --node) {
    const std::string& name = names[node];
    ASSERT_EQ(OutputOf(node, {"ip", "-4", "addr", "flush", "dev", name}), "");
    // The kernel first makes sure that nobody else has the address.
    std::string shown;
    const int64_t deadline_ns = MonotonicNs() + 20 * kSecondNs;
    while (MonotonicNs() < deadline_ns) {
      shown = OutputOf(node, {"ip", "-6", "-o", "addr", "show", "dev", name, "scope", "link"});
      if (!shown.empty() && shown.find("tentative") == std::string::npos) break;
      poll(nullptr, 0, 50);
    }
    const size_t begin = shown.find("fe80::");
    if (begin == std::string::npos) GTEST_SKIP() << "no link-local addresses here: " << shown;
    address = shown.substr(begin, shown.find('/', begin) - begin);
  }
  const Runs runs = Launch({1, 1}, {MEETING_RANKS}, {{"WEFT_IFNAME", "eth,net"}},
                           {StrCat(address, "%eth0"), StrCat(address, "%net9")});
  for (const auto& run : runs) {
    EXPECT_EQ(run->Wait(Soon()), 0) << run->Output();
    EXPECT_THAT(run->Output(), HasSubstr("sum 1"));
  }
}

// Loosely: it is the cable that is measured, and not the machine, which carries a hundred times as much.
TEST_F(LaunchedOverNetlab, WhatACableCarriesIsMeasured) {
  constexpr uint64_t kCableBits = 100'000'000;
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  for (const int node : {0, 1})
    ASSERT_EQ(lab_->SetRate(node, kCableBits), absl::OkStatus());
  const Runs runs = Launch({2, 1}, {MEETING_RANKS, "probe"});
  for (const auto& run : runs)
    EXPECT_EQ(run->Wait(Soon()), 0) << run->Output();
  const std::string output = runs[0]->Output();
  const std::string before = "of a rank's time for a message, ";
  const size_t at = output.find(before);
  ASSERT_NE(at, std::string::npos) << output;
  const double gbit = std::stod(output.substr(at + before.size()));
  EXPECT_GE(gbit * 1e9, kCableBits / 2.0) << output;
  EXPECT_LE(gbit * 1e9, kCableBits * 2.0) << output;
  EXPECT_THAT(output, HasSubstr("(measured)"));
}

TEST_F(LaunchedOverNetlab, NodesHaveNumbersOfRanksOfTheirOwn) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 3}));
  if (lab_ == nullptr) return;
  ExpectMeeting({1, 3});
  ExpectMeeting({3, 1, 2});
}

#ifdef WEFT_PERF
// Through the C interface, as users' programs; weft_perf checks each element.
TEST_F(LaunchedOverNetlab, CollectivesOfSeveralNodesHaveRightResults) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 3}));
  if (lab_ == nullptr) return;
  for (const std::vector<int>& ranks :
       {std::vector<int>{1, 1}, std::vector<int>{2, 2}, std::vector<int>{1, 3, 1}}) {
    for (const std::string operation :
         {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall"}) {
      SCOPED_TRACE(StrCat(operation, ", ", ranks.size(), " nodes, ", ranks[1], " ranks on node 1"));
      const Runs runs = Launch(
          ranks, {WEFT_PERF, operation, "-b", "52", "-e", "1M", "-f", "23", "-n", "2", "-c", "1"});
      for (const auto& run : runs)
        EXPECT_EQ(run->Wait(Soon()), 0) << run->Output();
      EXPECT_THAT(runs[0]->Output(), HasSubstr("# Out of bounds values : 0 OK"));
    }
  }
}
#endif

#ifdef WEFT_PERF
TEST_F(LaunchedOverNetlab, CollectivesOverALossyNetworkHaveRightResults) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  const absl::Status set =
      lab_->SetFaults(1, {.loss = 0.01, .doubled = 0.01, .late = 0.01, .late_ms = 3, .seed = 1});
  if (!set.ok()) GTEST_SKIP() << std::string(set.message());
  const Runs runs = Launch(
      {1, 2}, {WEFT_PERF, "all_reduce", "-b", "52", "-e", "1M", "-f", "23", "-n", "2", "-c", "1"});
  for (const auto& run : runs)
    EXPECT_EQ(run->Wait(Soon()), 0) << run->Output();
  EXPECT_THAT(runs[0]->Output(), HasSubstr("# Out of bounds values : 0 OK"));
  EXPECT_GT(lab_->Faults(1).lost.load(), 5u);
}

// A node that is silent for three seconds is said to be unreachable, and TCP tries again 0.2, 0.6, 1.4 and 3 seconds after the cable was pulled
// out: so two seconds would be too much.
TEST_F(LaunchedOverNetlab, ACableThatIsPulledOutForAMomentIsNoFailure) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  const Runs runs = Launch({1, 1}, {MEETING_RANKS, "wait"});
  for (const auto& run : runs)
    ASSERT_TRUE(run->WaitForOutput("sum 1", Soon())) << run->Output();
  for (int round = 0; round < 2; ++round) {
    const int64_t pulled_ns = MonotonicNs();
    ASSERT_EQ(lab_->SetLinkUp(1, false), absl::OkStatus());
    EXPECT_EQ(runs[0]->Wait(pulled_ns + kSecondNs), -1);
    ASSERT_EQ(lab_->SetLinkUp(1, true), absl::OkStatus());
    ExpectSumsGoOn(runs);
    // By then the weftruns, which have connections of their own, would have said it.
    for (const auto& run : runs)
      EXPECT_EQ(run->Wait(pulled_ns + 4 * kSecondNs), -1) << run->Output();
  }
}

// All connections between the ranks and their agents, again and again, but for those of the store.
TEST_F(LaunchedOverNetlab, ConnectionsThatAreResetAreMadeAgain) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  const Runs runs = Launch({1, 1}, {MEETING_RANKS, "wait"}, {{"WEFT_LOG", "info"}});
  for (const auto& run : runs)
    ASSERT_TRUE(run->WaitForOutput("sum 1", Soon())) << run->Output();
  for (int round = 0; round < 10; ++round) {
    const std::string reset =
        OutputOf(0, {"ss", "-K", "-t", "-n", "state", "established", "dst", Netlab::Address(1),
                     "sport", "!=", ":29500", "sport", "!=", ":29501"});
    if (reset.find(Netlab::Address(1)) == std::string::npos) {
      GTEST_SKIP() << "ss ends no connections here: " << reset;
    }
    for (const auto& run : runs)
      ASSERT_EQ(run->Wait(MonotonicNs() + kSecondNs / 10), -1) << run->Output();
  }
  for (const auto& run : runs) {
    EXPECT_TRUE(run->WaitForOutput("has broken", Soon()));
    EXPECT_TRUE(run->WaitForOutput("is there again", Soon())) << run->Output();
  }
  ExpectSumsGoOn(runs);
}
#endif

// What a process has started, by what each of its threads has.
std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> children;
  std::error_code none;
  for (const auto& task :
       std::filesystem::directory_iterator(StrCat("/proc/", pid, "/task"), none)) {
    std::ifstream file(task.path() / "children");
    for (pid_t child = 0; file >> child;)
      children.push_back(child);
  }
  return children;
}

// A container that is paused, with one rank: all of the node stands still, and its kernel answers. That is no failure, for longer than the limit
// after which a node is unreachable and the five seconds of weftruns.
TEST_F(LaunchedOverNetlab, AStoppedNodeIsWaitedForAndNamed) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  const Runs runs = Launch({1, 1}, {MEETING_RANKS, "wait"});
  for (const auto& run : runs)
    ASSERT_TRUE(run->WaitForOutput("sum 1", Soon())) << run->Output();
  std::vector<pid_t> paused = ChildrenOf(runs[1]->pid());
  pid_t rank = -1;
  for (const pid_t pid : paused) {
    if (ReadFileStart(StrCat("/proc/", pid, "/comm")) == "meeting_ranks\n") rank = pid;
  }
  ASSERT_GT(rank, 0);
  paused.push_back(runs[1]->pid());
  const int64_t paused_ns = MonotonicNs();
  for (const pid_t pid : paused)
    ASSERT_EQ(kill(pid, SIGSTOP), 0);
  EXPECT_EQ(runs[0]->Wait(paused_ns + 8 * kSecondNs), -1) << runs[0]->Output();
  EXPECT_TRUE(runs[0]->WaitForOutput("process does not answer though its machine does", Soon()))
      << runs[0]->Output();
  EXPECT_THAT(runs[0]->Output(),
              HasSubstr(StrCat("rank 1 (host node1, pid ", rank, ", process does not")));
  for (const pid_t pid : paused)
    ASSERT_EQ(kill(pid, SIGCONT), 0);
  ExpectSumsGoOn(runs);
}

// The machine of one rank loses its network: nothing answers, and that is known within the limit of 3 s.
TEST_F(LaunchedOverNetlab, ACutCableIsUnreachableWithinTheLimit) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  const Runs runs = Launch({1, 1}, {MEETING_RANKS, "wait"});
  for (const auto& run : runs)
    ASSERT_TRUE(run->WaitForOutput("sum 1", Soon())) << run->Output();
  const int64_t cut_ns = MonotonicNs();
  ASSERT_EQ(lab_->SetLinkUp(1, false), absl::OkStatus());
  for (const auto& run : runs)
    EXPECT_TRUE(run->WaitForOutput("cannot be reached from rank", Soon())) << run->Output();
  const double took_s = static_cast<double>(MonotonicNs() - cut_ns) / kSecondNs;
  std::printf("a cut cable, known on both nodes after %.2f s\n", took_s);
  EXPECT_LE(took_s, 15);  // whoever is only stopped is waited for as long as an operation
}

// A hop with a smaller MTU than both ends believe: small packets pass, large ones do not, and nobody is told. It is the link that is named.
TEST_F(LaunchedOverNetlab, AHopThatLosesLargePacketsIsNamedAndNoRank) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  const absl::Status set = lab_->SetFaults(1, {});
  if (!set.ok()) GTEST_SKIP() << std::string(set.message());
  const Runs runs = Launch({1, 1}, {MEETING_RANKS, "wait", "7"});
  for (const auto& run : runs)
    ASSERT_TRUE(run->WaitForOutput("sum 1", Soon())) << run->Output();
  lab_->SetLongestFrame(1, 1200);
  for (int node = 0; node < 2; ++node) {
    NetlabProcess& run = *runs[static_cast<size_t>(node)];
    EXPECT_TRUE(run.WaitForOutput("failed: all_reduce #", Soon())) << run.Output();
    const std::string said = run.Output();
    EXPECT_THAT(said, HasSubstr("on group meeting: LINK_STALLED: nothing passes from rank "));
    EXPECT_THAT(said, HasSubstr("bytes are not acknowledged after "));
    EXPECT_THAT(said, HasSubstr("smaller than 1500 bytes: ping -M do -s 1472 10.77.0."));
    for (const int end : {0, 1}) {
      EXPECT_THAT(
          said, HasSubstr(StrCat("rank ", end, " (host node", end, ") at ", Netlab::Address(end))));
    }
    EXPECT_THAT(said, Not(HasSubstr("did not come")));
  }
}

TEST_F(LaunchedOverNetlab, ASlowLinkIsNamedWithItsRateAndNoRank) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  // On a busy machine the link may become slow so late that nobody knows its rate at the first warning.
  bool warned = false;
  for (int attempt = 0; attempt < 3 && !warned; ++attempt) {
    ASSERT_EQ(lab_->SetRate(1, 0), absl::OkStatus());
    const Runs runs = Launch({1, 1}, {MEETING_RANKS, "wait", "14", "2000003"});
    for (const auto& run : runs)
      ASSERT_TRUE(run->WaitForOutput("sum 1", Soon())) << run->Output();
    ASSERT_EQ(lab_->SetRate(1, 4'000'000), absl::OkStatus());
    warned = true;
    for (int node = 0; node < 2; ++node) {
      NetlabProcess& run = *runs[static_cast<size_t>(node)];
      EXPECT_TRUE(run.WaitForOutput("failed: all_reduce #", Soon())) << run.Output();
      const std::string said = run.Output();
      const std::string warning = StrCat("has waited for 10 s on rank ", node, ": LINK_SLOW: ");
      warned = warned && said.find(warning) != std::string::npos;
      EXPECT_THAT(said, HasSubstr("on group meeting: LINK_SLOW: the link from rank "));
      // 4 Mbit/s are 0.5 MB/s, less headers.
      EXPECT_THAT(said, ContainsRegex("carries 0\\.[0-9]+ MB/s"));
      EXPECT_THAT(said, Not(HasSubstr("did not come")));
    }
  }
  EXPECT_TRUE(warned) << "no warning says that the link is slow";
}

// The ranks know nothing of weft and of each other: it is the weftruns that find out.
TEST_F(LaunchedOverNetlab, ACutCableEndsTheRanksOfAllNodes) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 3}));
  if (lab_ == nullptr) return;
  const Runs runs = Launch({1, 2, 1}, {"bash", "-c", "echo up; exec sleep 1000"});
  for (const auto& run : runs)
    ASSERT_TRUE(run->WaitForOutput("up", Soon())) << run->Output();
  ASSERT_EQ(lab_->SetLinkUp(1, false), absl::OkStatus());
  for (const auto& run : runs)
    EXPECT_EQ(run->Wait(Soon()), 1) << run->Output();
  for (const int node : {0, 2}) {
    EXPECT_THAT(runs[static_cast<size_t>(node)]->Output(),
                HasSubstr("the weftrun of node 1 has ended or cannot be reached"));
  }
  EXPECT_THAT(runs[1]->Output(), HasSubstr("lost the store"));
}

TEST_F(LaunchedOverNetlab, AKilledRankEndsTheRanksOfAllNodes) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  const Runs runs =
      Launch({2, 1}, {"bash", "-c", "echo up; test $RANK = 2 && kill -9 $$; exec sleep 1000"});
  for (const auto& run : runs)
    EXPECT_EQ(run->Wait(Soon()), 128 + SIGKILL) << run->Output();
  EXPECT_THAT(runs[0]->Output(),
              HasSubstr("failed first: rank 2 on node 1 killed by signal 9 (SIGKILL)"));
}

// The store is where the launcher says; what ranks tell each other is on the network that is wanted.
TEST_F(LaunchedOverNetlab, DataGoesOverTheInterfaceThatIsWanted) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2, .interfaces = 2}));
  if (lab_ == nullptr) return;
  for (const std::string wanted : {"", "eth1", "^eth0", "=eth1,eth7"}) {
    SCOPED_TRACE(wanted);
    const int other = wanted.empty() ? 1 : 0;
    const auto before = lab_->Counters(1, 1 - other);
    const auto other_before = lab_->Counters(1, other);
    const Runs runs =
        Launch({1, 1}, {MEETING_RANKS}, {{"WEFT_IFNAME", wanted}, {"WEFT_LOG", "info"}});
    for (int node = 0; node < 2; ++node) {
      NetlabProcess& run = *runs[static_cast<size_t>(node)];
      EXPECT_EQ(run.Wait(Soon()), 0) << run.Output();
      EXPECT_THAT(run.Output(), HasSubstr(StrCat("others reach this machine at ",
                                                 Netlab::Address(node, 1 - other),
                                                 ", interface eth", 1 - other)));
    }
    const auto after = lab_->Counters(1, 1 - other);
    const auto other_after = lab_->Counters(1, other);
    ASSERT_TRUE(before.ok() && other_before.ok() && after.ok() && other_after.ok());
    EXPECT_GE(after->received_bytes - before->received_bytes, 800'024u / 2);
    EXPECT_LT(other_after->received_bytes - other_before->received_bytes, 800'024u / 4);
  }
}

TEST_F(LaunchedOverNetlab, AnInterfaceThatIsNotThereIsNamedWithThoseThatAre) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2}));
  if (lab_ == nullptr) return;
  const Runs runs = Launch({1, 1}, {MEETING_RANKS}, {{"WEFT_IFNAME", "ib"}});
  for (const auto& run : runs) {
    EXPECT_EQ(run->Wait(Soon()), 1) << run->Output();
    EXPECT_THAT(run->Output(), HasSubstr("WEFT_IFNAME=ib fits no network interface"));
    EXPECT_THAT(run->Output(), HasSubstr("eth0 (10.77.0."));
  }
}

}  // namespace
}  // namespace weft::test

// Ranks on nodes with two cables each: both carry large messages, by their speed, and one may be pulled out.
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "base/wait.h"
#include "tests/netlab/launched_over_netlab.h"

namespace weft::test {
namespace {

using ::testing::HasSubstr;

// What crosses each cable, as node 1 sends it.
struct CableBytes {
  uint64_t first = 0;
  uint64_t second = 0;

  double ratio() const { return static_cast<double>(first) / static_cast<double>(second); }
};

class NetlabRails : public NodesOverNetlab {
 protected:
  CableBytes Sent() {
    const auto first = lab_->Counters(1, 0);
    const auto second = lab_->Counters(1, 1);
    EXPECT_TRUE(first.ok() && second.ok());
    if (!first.ok() || !second.ok()) return {};
    return {.first = first->sent_bytes, .second = second->sent_bytes};
  }

  // Of a run of weft_perf over two rails.
  CableBytes SentBy(const std::vector<std::string>& arguments, const std::string& interfaces) {
    const CableBytes before = Sent();
    std::vector<std::string> words = {WEFT_PERF};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const Runs runs = Launch({1, 1}, words, {{"WEFT_IFNAME", interfaces}, {"WEFT_LOG", "info"}});
    for (const auto& run : runs) {
      EXPECT_EQ(run->Wait(Soon()), 0) << run->Output();
      output_ = run->Output() + output_;
    }
    const CableBytes after = Sent();
    return {.first = after.first - before.first, .second = after.second - before.second};
  }

  std::string output_;
};

// By as much as each takes: nobody says how fast they are.
TEST_F(NetlabRails, LargeMessagesGoOverEachCableByItsSpeed) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2, .interfaces = 2}));
  if (lab_ == nullptr) return;

  struct Case {
    uint64_t second_bits;
    double least;
    double most;
  };

  for (const Case& rates : {Case{1'000'000'000, 0.5, 2}, Case{250'000'000, 2.5, 6.5}}) {
    SCOPED_TRACE(StrCat("1 Gbit/s and ", rates.second_bits));
    for (const int node : {0, 1}) {
      ASSERT_EQ(lab_->SetRate(node, 1'000'000'000, 0), absl::OkStatus());
      ASSERT_EQ(lab_->SetRate(node, rates.second_bits, 1), absl::OkStatus());
    }
    const CableBytes sent =
        SentBy({"all_reduce", "-b", "32M", "-e", "32M", "-n", "4", "-w", "1", "-c", "1"}, "eth");
    EXPECT_THAT(output_, HasSubstr("# Out of bounds values : 0 OK"));
    EXPECT_THAT(output_, HasSubstr(StrCat(", ", Netlab::Address(1, 1), ", interfaces eth0, eth1")));
    EXPECT_THAT(output_, HasSubstr(StrCat("bytes to tcp:", Netlab::Address(1, 1))));
    EXPECT_GE(sent.first + sent.second, uint64_t{5 * (32 << 20)});
    EXPECT_GE(sent.ratio(), rates.least) << sent.first << " and " << sent.second;
    EXPECT_LE(sent.ratio(), rates.most) << sent.first << " and " << sent.second;
  }
}

TEST_F(NetlabRails, OneRailIsWhatOneInterfaceIs) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2, .interfaces = 2}));
  if (lab_ == nullptr) return;
  const std::vector<std::string> sizes = {"all_reduce", "-b", "8M", "-e", "8M", "-n", "1"};
  for (const std::string interfaces : {"", "=eth0", "^eth1"}) {
    SCOPED_TRACE(interfaces);
    EXPECT_LT(SentBy(sizes, interfaces).second, 100'000u);
  }
  // Which cable takes how much of one message is a matter of moments.
  const CableBytes both = SentBy({"all_reduce", "-b", "32M", "-e", "32M", "-n", "4"}, "=eth0,eth1");
  EXPECT_GT(both.second, 1'000'000u);
}

// The second rail of a pair that only one of the two has.
TEST_F(NetlabRails, RanksUseTheRailsThatBothHave) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2, .interfaces = 2}));
  if (lab_ == nullptr) return;
  const CableBytes before = Sent();
  const std::vector<std::string> program = {
      "bash", "-c",
      StrCat("test $RANK = 1 && export WEFT_IFNAME==eth0; exec ", WEFT_PERF,
             " all_reduce -b 8M -e 8M -n 1 -c 1")};
  const Runs runs = Launch({1, 1}, program, {{"WEFT_IFNAME", "eth"}});
  for (const auto& run : runs)
    EXPECT_EQ(run->Wait(Soon()), 0) << run->Output();
  EXPECT_THAT(runs[0]->Output(), HasSubstr("# Out of bounds values : 0 OK"));
  EXPECT_THAT(runs[0]->Output(), HasSubstr("rank 1 has 1 rails, rank 0 has 2"));
  EXPECT_LT(Sent().second - before.second, 100'000u);
}

TEST_F(NetlabRails, ResultsHaveTheBitsOfOneRail) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2, .interfaces = 2}));
  if (lab_ == nullptr) return;
  const auto hashes = [&](const std::string& interfaces, const std::string& streams) {
    const Runs runs = Launch({1, 1},
                             {WEFT_PERF, "all_reduce", "-b", "8M", "-e", "8M", "-d", "float",
                              "--repro", "--repro-world"},
                             {{"WEFT_IFNAME", interfaces}, {"WEFT_NET_STREAMS", streams}});
    for (const auto& run : runs)
      EXPECT_EQ(run->Wait(Soon()), 0) << run->Output();
    std::string lines;
    std::istringstream output(runs[0]->Output());
    for (std::string line; std::getline(output, line);)
      if (line.find("\"hash\"") != std::string::npos) lines += line + "\n";
    return lines;
  };
  const std::string of_one = hashes("=eth0", "1");
  EXPECT_THAT(of_one, HasSubstr("hash"));
  EXPECT_EQ(hashes("=eth0,eth1", "1"), of_one);
  EXPECT_EQ(hashes("=eth0,eth1", "3"), of_one);
}

// One of two cables, in the midst of messages that both carry: what was on it comes when it is back, or over the other one when it stays away.
TEST_F(NetlabRails, ACableOfTwoMayBePulledOut) {
  ASSERT_NO_FATAL_FAILURE(MakeLab({.nodes = 2, .interfaces = 2}));
  if (lab_ == nullptr) return;
  for (const int node : {0, 1}) {
    for (const int interface : {0, 1})
      ASSERT_EQ(lab_->SetRate(node, 500'000'000, interface), absl::OkStatus());
  }
  for (const bool comes_back : {true, false}) {
    SCOPED_TRACE(comes_back ? "it comes back" : "it stays away");
    const CableBytes before = Sent();
    const Runs runs =
        Launch({1, 1},
               {WEFT_PERF, "all_reduce", "-b", "32M", "-e", "32M", "-n", "8", "-w", "1", "-c", "1"},
               {{"WEFT_IFNAME", "eth"}, {"WEFT_LOG", "info"}});
    const int64_t until_ns = Soon();
    while (Sent().second - before.second < 16u << 20 && MonotonicNs() < until_ns)
      ASSERT_EQ(runs[0]->Wait(MonotonicNs() + kSecondNs / 50), -1) << runs[0]->Output();
    ASSERT_EQ(lab_->SetLinkUp(1, false, 1), absl::OkStatus());
    EXPECT_EQ(runs[0]->Wait(MonotonicNs() + kSecondNs), -1) << runs[0]->Output();
    if (comes_back) ASSERT_EQ(lab_->SetLinkUp(1, true, 1), absl::OkStatus());
    for (const auto& run : runs)
      EXPECT_EQ(run->Wait(Soon()), 0) << run->Output();
    EXPECT_THAT(runs[0]->Output(), HasSubstr("# Out of bounds values : 0 OK"));
    ASSERT_EQ(lab_->SetLinkUp(1, true, 1), absl::OkStatus());
  }
}

}  // namespace
}  // namespace weft::test

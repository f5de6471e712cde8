// Tests on a Netlab, and with launched ranks on its nodes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "base/wait.h"
#include "tests/support/netlab.h"

namespace weft::test {

constexpr int64_t kSecondNs = 1'000'000'000;

// Generous, because machines are busy: for what should take a second or two.
inline int64_t Soon() {
  return MonotonicNs() + 60 * kSecondNs;
}

class NetlabTest : public ::testing::Test {
 protected:
  // False: the test is skipped.
  void MakeLab(const NetlabSettings& settings) {
    auto lab = Netlab::Make(settings);
    if (!lab.ok()) GTEST_SKIP() << std::string(lab.status().message());
    lab_ = *std::move(lab);
  }

  // Of a program that is run to its end on a node.
  std::string OutputOf(int node, const std::vector<std::string>& arguments) {
    const auto process = lab_->Spawn(node, arguments);
    EXPECT_GE(process->Wait(Soon()), 0) << arguments[0] << " does not end";
    return process->Output();
  }

  std::unique_ptr<Netlab> lab_;
};

// One weftrun per node, as users start them.
class NodesOverNetlab : public NetlabTest {
 protected:
  using Runs = std::vector<std::unique_ptr<NetlabProcess>>;

  // `ranks` of each node. `masters`: by what address each node calls the first one; the same of its eth0 if there are none.
  Runs Launch(const std::vector<int>& ranks, const std::vector<std::string>& program,
              const Netlab::Environment& variables = {},
              const std::vector<std::string>& masters = {}) {
    Netlab::Environment environment = variables;
    environment.emplace_back("WEFT_INSECURE", "1");
    Runs runs;
    for (size_t node = 0; node < ranks.size(); ++node) {
      std::vector<std::string> words = {WEFTRUN,
                                        "-n",
                                        StrCat(ranks[node]),
                                        "--nnodes",
                                        StrCat(ranks.size()),
                                        "--node-rank",
                                        StrCat(node),
                                        "--master-addr",
                                        masters.empty() ? Netlab::Address(0) : masters[node],
                                        "--master-port",
                                        "29500"};
      words.insert(words.end(), program.begin(), program.end());
      runs.push_back(lab_->Spawn(static_cast<int>(node), words, environment));
    }
    return runs;
  }
};

}  // namespace weft::test

// Groups over several nodes that measure their links: all ranks have the same numbers, and results are what they are without.
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "comm/hierarchy/make_group.h"
#include "tests/comm/hierarchy/fake_node_ranks.h"
#include "tests/comm/node/directory_store.h"

namespace weft::test {
namespace {

// Longer than WEFT_PROBE's: machines are busy.
SpanSettings Measures() {
  return {.limit_ns = 30 * kSecondNs, .probe_ns = 20 * kSecondNs};
}

Collective AllReduce(const std::vector<int32_t>& in, std::vector<int32_t>* out) {
  return {.kind = OpKind::kAllReduce,
          .dtype = WEFT_INT32,
          .op = WEFT_SUM,
          .count = in.size(),
          .in = in.data(),
          .out = out->data()};
}

// The line of weft_explain that says what links are.
std::string LinksOf(const ProcessGroup& group) {
  const std::string text =
      group.Explain({.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .op = WEFT_SUM, .count = 9},
                    BufferKind{});
  const size_t at = text.find("between nodes: ");
  if (at == std::string::npos) return "";
  return text.substr(at, text.find('\n', at) - at);
}

// "" if sums of several sizes are right.
std::string CheckSums(ProcessGroup& group) {
  for (const size_t count : {1UL, 2'000UL, 20'011UL, 300'007UL}) {
    std::vector<int32_t> in(count);
    std::vector<int32_t> out(count, -1);
    for (size_t i = 0; i < count; ++i)
      in[i] = static_cast<int32_t>(i) + group.rank();
    const absl::Status status = group.Run(AllReduce(in, &out));
    if (!status.ok()) return std::string(status.message());
    const int size = group.size();
    for (size_t i = 0; i < count; ++i) {
      if (out[i] != static_cast<int32_t>(i) * size + size * (size - 1) / 2)
        return StrCat("element ", i, " of ", count, " is ", out[i]);
    }
  }
  return "";
}

// "" if all ranks have the same line, with `word` in it.
std::string CheckAgreed(ProcessGroup& group, const std::string& word) {
  const std::string line = LinksOf(group);
  if (line.find(word) == std::string::npos) return StrCat("not ", word, ": ", line);
  constexpr size_t kBytes = 200;
  std::vector<char> own(kBytes);
  std::memcpy(own.data(), line.data(), std::min(line.size(), kBytes));
  std::vector<char> all(kBytes * static_cast<size_t>(group.size()));
  const absl::Status status = group.Run({.kind = OpKind::kAllGather,
                                         .dtype = WEFT_UINT8,
                                         .count = kBytes,
                                         .in = own.data(),
                                         .out = all.data()});
  if (!status.ok()) return std::string(status.message());
  for (int rank = 0; rank < group.size(); ++rank) {
    if (std::memcmp(all.data() + kBytes * static_cast<size_t>(rank), own.data(), kBytes) != 0)
      return StrCat("rank ", rank, " has other links");
  }
  return "";
}

std::string CheckMeasured(ProcessGroup& group) {
  if (std::string problem = CheckAgreed(group, "(measured)"); !problem.empty()) return problem;
  if (std::string problem = CheckSums(group); !problem.empty()) return problem;
  const std::string text = group.Explain(
      {.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .op = WEFT_SUM, .count = 1 << 20},
      BufferKind{});
  for (const char* const word : {"schedule: ", "segments: ", "predicted: "}) {
    if (text.find(word) == std::string::npos) return StrCat("no ", word, "in: ", text);
  }
  return "";
}

TEST(SpanProbe, AllRanksHaveTheSameLinks) {
  for (const Nodes& shape : kNodes)
    RunNodes(shape, CheckMeasured, Measures());
}

TEST(SpanProbe, NothingIsMeasuredUnasked) {
  RunNodes({4, "2"}, [](ProcessGroup& group) { return CheckAgreed(group, "(default)"); });
}

// A part, and a part of one node.
TEST(SpanProbe, PartsHaveTheLinksOfTheirGroup) {
  RunNodes(
      {4, "2"},
      [](ProcessGroup& group) -> std::string {
        const auto part = group.Split(group.rank() % 2, 0, {.name = "part"});
        if (!part.ok()) return std::string(part.status().message());
        const bool same = LinksOf(**part) == LinksOf(group);
        std::string problem = same ? CheckMeasured(**part) : "other links";
        (*part)->Close();
        return problem;
      },
      Measures());
}

TEST(SpanProbe, WithoutTimeLinksAreTheDefaultOnes) {
  RunNodes(
      {4, "2"},
      [](ProcessGroup& group) -> std::string {
        std::string problem = CheckAgreed(group, "(default)");
        return problem.empty() ? CheckSums(group) : problem;
      },
      SpanSettings{.limit_ns = 30 * kSecondNs, .probe_ns = 1});
}

// Ranks as threads, of which rank 0 alone wants it, or does not.
TEST(SpanProbe, TheFirstRanksSettingCounts) {
  constexpr int kRanks = 5;
  for (const bool wanted : {true, false}) {
    const TemporaryDirectory directory;
    DirectoryStore store(directory.path());
    std::vector<std::string> problems(kRanks);
    std::vector<std::thread> threads;
    threads.reserve(kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        SpanSettings settings = Measures();
        if ((rank == 0) != wanted) settings.probe_ns = 0;
        const auto group = MakeGroup(
            &store, rank, kRanks,
            {.name = "p", .timeout_ns = 60 * kSecondNs, .init_timeout_ns = 60 * kSecondNs},
            {.fake_nodes = "3", .transport = GetOptions().transport, .span = settings});
        std::string& problem = problems[static_cast<size_t>(rank)];
        if (!group.ok()) {
          problem = std::string(group.status().message());
          return;
        }
        problem = CheckAgreed(**group, wanted ? "(measured)" : "(default)");
        if (problem.empty()) problem = CheckSums(**group);
        (*group)->Close();
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    for (int rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ(problems[static_cast<size_t>(rank)], "") << "rank " << rank;
  }
}

}  // namespace
}  // namespace weft::test

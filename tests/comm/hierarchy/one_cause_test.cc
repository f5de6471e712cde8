// Whatever ends a group, all of its ranks say the same of it, on one node and over fake nodes:
// failures that race with what the ranks do meanwhile, tried again and again.
#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/group/progress.h"
#include "tests/comm/hierarchy/fake_node_ranks.h"
#include "tests/support/shared_value.h"

namespace weft::test::one_cause_test {
namespace {

constexpr int kRanksMax = 8;
constexpr size_t kSaidMax = 700;

#ifdef WEFT_SANITIZE
constexpr int kSplits = 6;
constexpr int kEnds = 2;
#else
constexpr int kSplits = 25;
constexpr int kEnds = 6;
#endif

// "": one node.
constexpr Nodes kShapes[] = {{2, "2"}, {3, "0,0,1"}, {4, "2"}, {4, "0,1,0,1"}, {4, ""}};

// What the ranks of one trial were told.
struct Said {
  std::atomic<int> come{0};
  char text[kRanksMax][kSaidMax] = {};

  void Note(int rank, const absl::Status& status) {
    std::snprintf(text[rank], kSaidMax, "%d of %d: %s", static_cast<int>(ResultOf(status)),
                  FieldsOf(status).world_rank, std::string(status.message()).c_str());
  }
};

// Until all are here, as close together as processes can be.
bool Meet(std::atomic<int>* come, int count) {
  come->fetch_add(1);
  const int64_t until_ns = MonotonicNs() + 30 * kSecondNs;
  while (come->load() < count) {
    if (MonotonicNs() > until_ns) return false;
    LookAfterGroups();
    usleep(50);
  }
  return true;
}

void Spin(int64_t ns) {
  const int64_t until_ns = MonotonicNs() + ns;
  while (MonotonicNs() < until_ns) {
  }
}

// The error of a group that ends before long.
absl::Status EndOf(ProcessGroup& group) {
  const int64_t until_ns = MonotonicNs() + 20 * kSecondNs;
  absl::Status ended;
  while ((ended = group.error()).ok() && MonotonicNs() < until_ns) {
    LookAfterGroups();
    usleep(200);
  }
  return ended;
}

// "" if that is the abort by the rank with that number in the world.
std::string NotTheAbort(std::string_view what, const absl::Status& status, int aborter) {
  const std::string text(status.message());
  const bool right = ResultOf(status) == WEFT_ABORTED && FieldsOf(status).world_rank == aborter &&
                     text.find("that is enough") != std::string::npos;
  return right ? "" : StrCat(what, " says ", static_cast<int>(ResultOf(status)), ": ", text);
}

// One rank aborts `whole` at any time while all cut it. A part that is made nevertheless ends by
// the abort as well.
std::string SplitAndAbort(ProcessGroup& whole, int aborter, int colors, int64_t delay_ns,
                          Said* said) {
  const bool aborts = whole.rank() == aborter;
  if (!Meet(&said->come, whole.size())) return "not all have come";
  std::thread abort;
  if (aborts) {
    abort = std::thread([&] {
      Spin(delay_ns);
      whole.Abort("that is enough");
    });
  }
  auto part = whole.Split(whole.rank() % colors, 0, {.name = "part"});
  if (aborts) abort.join();
  absl::Status ended = part.status();
  std::string problem;
  if (part.ok()) {
    const int64_t until_ns = MonotonicNs() + 20 * kSecondNs;
    while (ended.ok() && MonotonicNs() < until_ns)
      ended = (*part)->Run({.kind = OpKind::kBarrier});
    problem = NotTheAbort("the part", ended, aborter);
    (*part)->Close();
  } else {
    problem = NotTheAbort("the split", ended, aborter);
  }
  const absl::Status of_whole = EndOf(whole);
  said->Note(whole.rank(), of_whole);
  return problem.empty() ? NotTheAbort("the group", of_whole, aborter) : problem;
}

void ExpectOneSentence(const Said& said, int size) {
  for (int rank = 1; rank < size; ++rank)
    EXPECT_STREQ(said.text[rank], said.text[0]) << "rank " << rank;
}

TEST(OneCause, AnAbortWhileTheGroupIsSplitIsToldToAllRanks) {
  const uint64_t seed = TestSeed(7);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  for (const Nodes& shape : kShapes) {
    struct Trials {
      Said said[kSplits];
    };

    const SharedValue<Trials> trials;
    RunNodes(shape, [&](ProcessGroup& group) -> std::string {
      std::mt19937_64 random(seed);
      for (int trial = 0; trial < kSplits; ++trial) {
        const auto aborter = static_cast<int>(random() % static_cast<uint64_t>(shape.size));
        const int colors = 1 + static_cast<int>(random() % 2);
        const auto delay_ns = static_cast<int64_t>(random() % 1'500'000);
        auto whole = group.Split(0, group.rank(), {.name = "whole"});
        if (!whole.ok()) return std::string(whole.status().message());
        const std::string problem =
            SplitAndAbort(**whole, aborter, colors, delay_ns, &trials->said[trial]);
        (*whole)->Close();
        if (!problem.empty()) return StrCat("trial ", trial, ": ", problem);
        if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the group has ended";
      }
      return "";
    });
    for (const Said& said : trials->said)
      ExpectOneSentence(said, shape.size);
  }
}

// The processes of ranks that may end without leaving. `body` has no need to close the group.
void RunHasty(const Nodes& shape, int64_t limit_ns,
              const std::function<std::string(ProcessGroup& group)>& body) {
  SCOPED_TRACE(StrCat(shape.size, " ranks on nodes ", shape.nodes));
  const TemporaryDirectory directory;
  const auto ends = RunForkedRanks(shape.size, 120, [&](int rank) -> std::string {
    DirectoryStore store(directory.path());
    const auto group =
        MakeGroup(&store, rank, shape.size, {.name = "s", .timeout_ns = 60 * kSecondNs},
                  {.fake_nodes = shape.nodes, .span = {.limit_ns = limit_ns}});
    if (!group.ok()) return StrCat("making: ", std::string(group.status().message()));
    std::string problem = body(**group);
    (*group)->Close();
    return problem;
  });
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
}

// `count` elements more than others have.
absl::Status Reduce(ProcessGroup& group, size_t count) {
  std::vector<float> data(100 + count, 1);
  return group.Run({.kind = OpKind::kAllReduce,
                    .dtype = WEFT_FLOAT32,
                    .count = data.size(),
                    .in = data.data(),
                    .out = data.data()});
}

// The last one of a node that learns it need not stay for the others to learn it.
TEST(OneCause, WhoEndsAsSoonAsItKnowsTheCauseDoesNotKeepItFromOthers) {
  constexpr int64_t kLimitNs = 12 * kSecondNs;
  for (const Nodes& shape : {Nodes{2, "2"}, Nodes{3, "3"}, Nodes{4, "2"}}) {
    for (int trial = 0; trial < kEnds; ++trial) {
      const SharedValue<Said> said;
      RunHasty(shape, kLimitNs, [&](ProcessGroup& group) -> std::string {
        const int rank = group.rank();
        const int64_t begun_ns = MonotonicNs();
        const absl::Status ended = Reduce(group, rank == 0 ? 1 : 0);
        said->Note(rank, ended);
        if (ResultOf(ended) != WEFT_MISMATCH) return StrCat("got ", std::string(ended.message()));
        if (MonotonicNs() - begun_ns > kLimitNs / 3) return "it waited for a rank that has ended";
        _exit(0);
      });
      ExpectOneSentence(*said.operator->(), shape.size);
    }
  }
}

// A rank that has no more to do ends, and the others call different things at that moment.
TEST(OneCause, ARankThatEndsEarlyDoesNotHideAMismatch) {
  for (const Nodes& shape : {Nodes{3, ""}, Nodes{4, ""}, Nodes{3, "0,0,1"}, Nodes{3, "0,1,1"},
                             Nodes{4, "2"}, Nodes{3, "3"}}) {
    for (int leaver = 0; leaver < shape.size; ++leaver) {
      SCOPED_TRACE(StrCat("rank ", leaver, " ends early"));
      const SharedValue<Said> said;
      RunHasty(shape, kSecondNs, [&](ProcessGroup& group) -> std::string {
        const int rank = group.rank();
        if (rank == leaver) {
          if (!Meet(&said->come, shape.size)) return "not all have come";
          _exit(0);
        }
        said->come.fetch_add(1);
        const int differs = leaver == shape.size - 1 ? shape.size - 2 : shape.size - 1;
        const absl::Status ended = Reduce(group, rank == differs ? 1 : 0);
        said->Note(rank, ended);
        return ResultOf(ended) == WEFT_MISMATCH ? "" : StrCat("got ", std::string(ended.message()));
      });
      std::snprintf(said->text[leaver], kSaidMax, "%s", said->text[leaver == 0 ? 1 : 0]);
      ExpectOneSentence(*said.operator->(), shape.size);
    }
  }
}

}  // namespace
}  // namespace weft::test::one_cause_test

// Groups over fake nodes of this machine, as processes: their collectives, bit for bit those of a reference, and how these end.
#include <atomic>
#include <csignal>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "tests/comm/hierarchy/fake_node_ranks.h"
#include "tests/comm/node/collective_case.h"
#include "tests/support/case_sample.h"

namespace weft::test {
namespace {

// Every kind, with operations that round, that are the user's, and that do neither.
std::vector<CollectiveCase> AllCases(int size, uint64_t seed) {
  constexpr size_t kElementCounts[] = {2, 7, 4, 1, 3};
  std::vector<CollectiveCase> cases;
  for (int number = 1; number < kOpKindCount; ++number) {
    const auto kind = static_cast<OpKind>(number);
    for (const weft_dtype_t dtype : {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT8_E5M2, WEFT_INT64}) {
      for (const weft_op_t op : {WEFT_SUM, WEFT_AVG, WEFT_MAX, kOpPremulSum, kOpUser}) {
        if (!TraitsOf(kind).reduces && op != WEFT_SUM) continue;
        for (const size_t count : {0UL, 1UL, 5UL, 1021UL, 30'001UL}) {
          const uint64_t number_of_case = cases.size();
          cases.push_back({.kind = kind,
                           .dtype = dtype,
                           .op = op,
                           .root = static_cast<int>(number_of_case % static_cast<uint64_t>(size)),
                           .count = count,
                           .seed = seed + number_of_case + 1,
                           .element_count = kElementCounts[number_of_case % 5]});
        }
      }
    }
  }
  return cases;
}

TEST(SpanGroup, CollectivesMatchTheReferenceWhateverEachRankChooses) {
  const uint64_t seed = TestSeed(41);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  for (const Nodes& shape : kNodes) {
    const std::vector<CollectiveCase> cases = AllCases(shape.size, seed);
    const CaseSample sample({.every = 3, .sanitized = 16}, seed);
    RunNodes(shape, [&](ProcessGroup& group) -> std::string {
      for (size_t i = 0; i < cases.size(); ++i) {
        if (!sample.Takes(i)) continue;
        std::string problem =
            RunCase(group, cases[i], LocalChoice::FromSeed(cases[i].seed, group.rank()));
        if (!problem.empty()) return problem;
      }
      const absl::Status met = group.Run({.kind = OpKind::kBarrier});
      return met.ok() ? "" : std::string(met.message());
    });
  }
}

// What each rank has sent as messages, exactly: lanes of half a vector, whatever the map, where sums may be formed in any order.
TEST(SpanGroup, StatsTellWhatStaysOnTheNodeAndWhatDoesNot) {
  for (const Nodes& shape : {Nodes{4, "2"}, Nodes{4, "0,1,0,1"}}) {
    const bool by_turns = std::string_view(shape.nodes) != "2";
    RunNodes(shape, [by_turns](ProcessGroup& group) -> std::string {
      constexpr uint64_t kBytes = 1 << 20;
      std::vector<int32_t> data(kBytes / sizeof(int32_t), 1);
      absl::Status ended = group.Run({.kind = OpKind::kAllReduce,
                                      .dtype = WEFT_INT32,
                                      .count = data.size(),
                                      .in = data.data(),
                                      .out = data.data()});
      if (!ended.ok()) return std::string(ended.message());
      const GroupStats first = group.stats();
      // Half of a vector to the owner of the other lane, and half of the result; across, halves of the own lane, there and back.
      if (first.node_bytes != kBytes || first.net_bytes != kBytes / 2)
        return StrCat("int32: ", first.node_bytes, " on the node, ", first.net_bytes, " off it");
      if (first.node_messages == 0 || first.net_messages == 0) return "no messages";
      std::vector<float> floats(data.size(), 1);
      ended = group.Run({.kind = OpKind::kAllReduce,
                         .dtype = WEFT_FLOAT32,
                         .count = floats.size(),
                         .numerics = WEFT_NUMERICS_FAST,
                         .in = floats.data(),
                         .out = floats.data()});
      if (!ended.ok()) return std::string(ended.message());
      if (data.back() != 4 || floats.front() != 4 || floats.back() != 4) return "wrong sums";
      const GroupStats second = group.stats();
      if (second.net_bytes != kBytes) return StrCat("float32: ", second.net_bytes, " off the node");
      // Around, so each rank sends off its node, or, where they are not by turns, every other one.
      char in[300] = {};
      char out[300] = {};
      const int size = group.size();
      ended = group.RunPair({.is_send = true,
                             .in = in,
                             .count = sizeof(in),
                             .dtype = WEFT_INT8,
                             .peer = (group.rank() + 1) % size},
                            {.out = out,
                             .count = sizeof(out),
                             .dtype = WEFT_INT8,
                             .peer = (group.rank() + size - 1) % size});
      if (!ended.ok()) return std::string(ended.message());
      const GroupStats third = group.stats();
      const bool leaves = by_turns || group.rank() % 2 == 1;
      const uint64_t near = third.node_bytes - second.node_bytes;
      const uint64_t far = third.net_bytes - second.net_bytes;
      const uint64_t messages = third.node_messages + third.net_messages;
      if (near != (leaves ? 0 : 300) || far != (leaves ? 300 : 0) ||
          messages != second.node_messages + second.net_messages + 1)
        return StrCat("message: ", near, " on the node, ", far, " off it");
      return "";
    });
  }
}

// They pass each other, and none waits for another one.
TEST(SpanGroup, ManyWorksAreUnderWayAtOnce) {
  RunNodes({4, "2"}, [](ProcessGroup& group) -> std::string {
    constexpr int kWorks = 30;
    std::vector<std::vector<float>> in;
    std::vector<std::vector<float>> out;
    std::vector<WorkRef> works;
    for (int i = 0; i < kWorks; ++i) {
      const size_t count = i % 3 == 0 ? 200'000 : 17;
      in.emplace_back(count, static_cast<float>(group.rank() + i));
      out.emplace_back(count);
      auto work = group.Start({.kind = OpKind::kAllReduce,
                               .dtype = WEFT_FLOAT32,
                               .count = count,
                               .in = in.back().data(),
                               .out = out.back().data()});
      if (!work.ok()) return std::string(work.status().message());
      works.push_back(*work);
    }
    for (int i = kWorks - 1; i >= 0; --i) {
      const absl::Status ended = works[static_cast<size_t>(i)]->Wait(0);
      if (!ended.ok()) return std::string(ended.message());
      for (const float value : out[static_cast<size_t>(i)]) {
        if (value != static_cast<float>(6 + 4 * i)) return StrCat("work ", i, " has ", value);
      }
    }
    return "";
  });
}

// Nobody waits: the progress thread moves it.
TEST(SpanGroup, ProgressMovesWhatNobodyWaitsFor) {
  RunNodes({2, "2"}, [](ProcessGroup& group) -> std::string {
    std::vector<float> in(300'000, 1);
    std::vector<float> out(in.size());
    auto work = group.Start({.kind = OpKind::kAllReduce,
                             .dtype = WEFT_FLOAT32,
                             .count = in.size(),
                             .in = in.data(),
                             .out = out.data(),
                             .background = true});
    if (!work.ok()) return std::string(work.status().message());
    const int64_t until_ns = MonotonicNs() + 20 * kSecondNs;
    while (!(*work)->ended()) {
      if (MonotonicNs() > until_ns) return "it does not end";
      usleep(1'000);
    }
    return out.back() == 2 ? "" : "it has another result";
  });
}

TEST(SpanGroup, AKilledRankEndsOperationsOnAllNodesAndIsNamed) {
  for (const size_t count : {size_t{4}, size_t{100'000}}) {
    RunNodes(
        {4, "2"},
        [&](ProcessGroup& group) -> std::string {
          std::vector<float> data(count, 1);
          const Collective call{.kind = OpKind::kAllReduce,
                                .dtype = WEFT_FLOAT32,
                                .count = count,
                                .in = data.data(),
                                .out = data.data()};
          for (int round = 0;; ++round) {
            if (group.rank() == 3 && round == 20) (void)kill(getpid(), SIGKILL);
            const absl::Status ended = group.Run(call);
            if (ended.ok()) continue;
            const ErrorFields fields = FieldsOf(ended);
            const bool right =
                ResultOf(ended) == WEFT_PEER_LOST && fields.rank == 3 && fields.signal == SIGKILL;
            if (!right) return std::string(ended.message());
            if (fields.operation != "all_reduce" || fields.sequence < 20) {
              return StrCat("of ", fields.operation, " #", fields.sequence);
            }
            return ResultOf(group.Run(call)) == WEFT_ABORTED ? "" : "it goes on";
          }
        },
        3);
  }
}

// Rank 2 makes another call than the others, in one respect; all are told both calls.
TEST(SpanGroup, ADifferentCallIsAMismatchOnAllRanks) {
  struct Difference {
    const char* called;
    std::function<void(Collective*)> change;
  };

  const std::vector<Difference> differences = {
      {"of 11 float32",
       [](Collective* call) {
         call->count = 11;
       }},
      {"of 100001 float32",
       [](Collective* call) {
         call->count = 100'001;
       }},
      {"of 10 int32",
       [](Collective* call) {
         call->dtype = WEFT_INT32;
       }},
      {"all_reduce (max) of 10 float32",
       [](Collective* call) {
         call->op = WEFT_MAX;
       }},
      {"of 10 float32 from root 0",
       [](Collective* call) {
         call->kind = OpKind::kBroadcast;
       }},
      {"barrier",
       [](Collective* call) {
         *call = {.kind = OpKind::kBarrier};
       }},
  };
  for (const Difference& difference : differences) {
    SCOPED_TRACE(difference.called);
    RunNodes({4, "2"}, [&](ProcessGroup& group) -> std::string {
      std::vector<float> data(100'001, 1);
      Collective call = {.kind = OpKind::kAllReduce,
                         .dtype = WEFT_FLOAT32,
                         .count = 10,
                         .in = data.data(),
                         .out = data.data()};
      if (group.rank() == 2) difference.change(&call);
      const absl::Status ended = group.Run(call);
      const std::string text(ended.message());
      const bool named = text.find(StrCat("rank 2 called ")) != std::string::npos &&
                         text.find(difference.called) != std::string::npos &&
                         text.find("called all_reduce (sum) of 10 float32") != std::string::npos;
      return ResultOf(ended) == WEFT_MISMATCH && named ? "" : StrCat("it says: ", text);
    });
  }
}

TEST(SpanGroup, WhoDoesNotComeIsNamedAtTheDeadline) {
  RunNodes(
      {3, "0,0,1"},
      [](ProcessGroup& group) -> std::string {
        if (group.rank() == 2) {
          const int64_t until_ns = MonotonicNs() + 20 * kSecondNs;
          while (group.error().ok() && MonotonicNs() < until_ns)
            usleep(5'000);
          return ResultOf(group.error()) == WEFT_TIMEOUT ? "" : "it heard nothing";
        }
        const absl::Status ended = group.Run({.kind = OpKind::kBarrier});
        return ResultOf(ended) == WEFT_TIMEOUT ? ""
                                               : StrCat("it says: ", std::string(ended.message()));
      },
      -1, kSecondNs);
}

// Parts over several nodes, on one, of one rank; of the parent, of a part, in another order.
TEST(SpanGroup, PartsDoCollectives) {
  struct Cut {
    int color;
    int key;
  };

  using CutOf = Cut (*)(int rank);
  constexpr CutOf kCuts[] = {
      [](int rank) {
        return Cut{rank % 2, 0};
      },
      [](int rank) {
        return Cut{0, -rank};
      },
      [](int rank) {
        return Cut{rank / 2, 0};
      },
      [](int rank) {
        return Cut{rank == 1 ? -1 : 7, rank};
      },
  };
  const uint64_t seed = TestSeed(42);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  for (const Nodes& shape : kNodes) {
    RunNodes(shape, [&](ProcessGroup& group) -> std::string {
      for (const CutOf& cut_of : kCuts) {
        const Cut cut = cut_of(group.rank());
        auto part = group.Split(cut.color, cut.key, {.name = ""});
        if (!part.ok()) return std::string(part.status().message());
        if ((*part == nullptr) != (cut.color < 0)) return "a part for nobody";
        if (*part == nullptr) continue;
        std::vector<CollectiveCase> cases = AllCases((*part)->size(), seed);
        for (size_t i = group.name().size() % 7; i < cases.size(); i += 97) {
          std::string problem =
              RunCase(**part, cases[i], LocalChoice::FromSeed(cases[i].seed, (*part)->rank()));
          if (!problem.empty()) return problem;
        }
        auto again = (*part)->Split((*part)->rank() % 2, 0, {.name = "again"});
        if (!again.ok()) return std::string(again.status().message());
        const absl::Status met = (*again)->Run({.kind = OpKind::kBarrier});
        if (!met.ok()) return std::string(met.message());
        (*again)->Close();
        (*part)->Close();
      }
      return group.Run({.kind = OpKind::kBarrier}).ok() ? "" : "the group has ended";
    });
  }
}

// The parent may be closed first.
TEST(SpanGroup, PartsOutliveTheParent) {
  RunNodes({4, "2"}, [&](ProcessGroup& group) -> std::string {
    auto part = group.Split(group.rank() % 2, 0, {.name = "p"});
    if (!part.ok()) return std::string(part.status().message());
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the parent";
    group.Close();
    for (int i = 0; i < 3; ++i) {
      const absl::Status met = (*part)->Run({.kind = OpKind::kBarrier});
      if (!met.ok()) return std::string(met.message());
    }
    (*part)->Close();
    return "";
  });
}

// Rank 3 is in one of two parts; all know that it has died.
TEST(SpanGroup, AKilledRankEndsAllParts) {
  RunNodes(
      {4, "2"},
      [&](ProcessGroup& group) -> std::string {
        auto part = group.Split(group.rank() % 2, 0, {.name = "p"});
        if (!part.ok()) return std::string(part.status().message());
        for (int round = 0;; ++round) {
          if (group.rank() == 3 && round == 10) (void)kill(getpid(), SIGKILL);
          const absl::Status ended = (*part)->Run({.kind = OpKind::kBarrier});
          if (ended.ok()) continue;
          const ErrorFields fields = FieldsOf(ended);
          const int expected = group.rank() == 1 ? 1 : -1;
          // Between two rounds it has ended already.
          const weft_result_t result = ResultOf(ended);
          const bool right = (result == WEFT_PEER_LOST || result == WEFT_ABORTED) &&
                             fields.world_rank == 3 && fields.rank == expected &&
                             fields.signal == SIGKILL;
          (*part)->Close();
          return right ? "" : std::string(ended.message());
        }
      },
      3);
}

// The parent, and the other part, go on.
TEST(SpanGroup, AMismatchEndsItsPartOnAllNodes) {
  RunNodes({4, "2"}, [&](ProcessGroup& group) -> std::string {
    auto part = group.Split(group.rank() % 2, 0, {.name = "p"});
    if (!part.ok()) return std::string(part.status().message());
    const bool wrong = group.rank() % 2 == 1;
    std::vector<float> data(200, 1);
    const absl::Status ended = (*part)->Run({.kind = OpKind::kAllReduce,
                                             .dtype = WEFT_FLOAT32,
                                             .count = group.rank() == 3 ? 199UL : 200UL,
                                             .in = data.data(),
                                             .out = data.data()});
    if (ended.ok() == wrong || (wrong && ResultOf(ended) != WEFT_MISMATCH))
      return StrCat("it says: ", std::string(ended.message()));
    const absl::Status met = group.Run({.kind = OpKind::kBarrier});
    (*part)->Close();
    return met.ok() ? "" : std::string(met.message());
  });
}

// By turns, a node sums as many pieces as it has ranks; the warning names the order that nests. Once: on rank 0.
TEST(SpanGroup, AnOrderOfRanksThatCostsIsWarnedOf) {
  static std::string logged;
  SetLogCallback(
      [](weft_log_level_t /*level*/, const char* message, void* /*user*/) { logged += message; },
      nullptr);
  for (const Nodes& shape : {Nodes{4, "0,1,0,1"}, Nodes{4, "2"}, Nodes{3, "0,0,1"}}) {
    const bool costs = std::string_view(shape.nodes) == "0,1,0,1";
    RunNodes(shape, [&](ProcessGroup& group) -> std::string {
      const bool told = logged.find("2 pieces") != std::string::npos &&
                        logged.find("0,2,1,3") != std::string::npos;
      return told == (costs && group.rank() == 0) ? "" : StrCat("it says: ", logged);
    });
  }
  SetLogCallback(nullptr, nullptr);
}

TEST(SpanGroup, WhatIsNotThereIsRefused) {
  RunNodes({2, "2"}, [](ProcessGroup& group) -> std::string {
    if (ResultOf(group.AllocateShared(64).status()) != WEFT_UNSUPPORTED) return "shared blocks";
    return group.Run({.kind = OpKind::kBarrier}).ok() ? "" : "the group has ended";
  });
}

}  // namespace
}  // namespace weft::test

// A rank that cannot make a call tells the others at once; what all ranks refuse is nothing to their group.
#include "comm/group/refusal.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/group/progress.h"
#include "tests/comm/hierarchy/fake_node_ranks.h"
#include "tests/comm/hierarchy/held_look.h"
#include "tests/comm/node/rank_threads.h"

namespace weft::test::refusal_test {
namespace {

constexpr int64_t kTimeoutNs = 60 * kSecondNs;
// "At once", on a machine that does other things: a small part of the deadline.
constexpr int64_t kSoonNs = kTimeoutNs / 4;
// A thread gets no CPU for so long.
constexpr int64_t kHeldNs = 150'000'000;
constexpr const char* kWhy = "a tensor of layout torch.sparse_coo was given, 100%";
constexpr size_t kCounts[] = {0, 1, 13, 5003, 300'007};

using Body = std::function<std::string(ProcessGroup& group)>;

// On one node as threads, and over fake nodes.
void OnAllShapes(const Body& body) {
  for (const int size : {2, 3, 5, 8})
    EXPECT_EQ(RunThreadRanks(size, {.name = "s", .timeout_ns = kTimeoutNs}, body), "") << size;
  for (const Nodes& shape : {Nodes{2, "2"}, Nodes{3, "0,0,1"}, Nodes{4, "0,1,0,1"}, Nodes{5, "3"}})
    RunNodes(shape, body, -1, kTimeoutNs);
}

// Of the ranks of a test, threads or forked processes.
class SharedCount {
 public:
  SharedCount()
      : count_(new (mmap(nullptr, sizeof(*count_), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0)) {}

  SharedCount(const SharedCount&) = delete;
  SharedCount& operator=(const SharedCount&) = delete;

  ~SharedCount() { munmap(count_, sizeof(*count_)); }

  void Add() { count_->fetch_add(1); }

  void AwaitAtLeast(int count) const {
    while (count_->load() < count) {
      LookAfterGroups();
      usleep(100);
    }
  }

  void Reset() { count_->store(0); }

 private:
  std::atomic<int>* count_;
};

std::string SumProblem(ProcessGroup& group, size_t count) {
  std::vector<int32_t> data(count, group.rank() + 1);
  const absl::Status status = group.Run({.kind = OpKind::kAllReduce,
                                         .dtype = WEFT_INT32,
                                         .count = count,
                                         .in = data.data(),
                                         .out = data.data()});
  if (!status.ok()) return std::string(status.message());
  const int sum = group.size() * (group.size() + 1) / 2;
  for (const int32_t value : data) {
    if (value != sum) return StrCat("the sum is ", value, ", not ", sum);
  }
  return "";
}

struct Operation {
  OpKind kind;
  bool started = false;  // and then waited for, not blocking
};

// Of `count` elements, with buffers for blocks too.
absl::Status Call(ProcessGroup& group, const Operation& operation, size_t count) {
  const size_t all = count * static_cast<size_t>(group.size()) + 1;
  std::vector<float> in(all, 1);
  std::vector<float> out(all);
  Collective call{.kind = operation.kind,
                  .dtype = WEFT_FLOAT32,
                  .root = group.size() - 1,
                  .count = count,
                  .in = in.data(),
                  .out = out.data()};
  if (operation.kind == OpKind::kBarrier) call = {.kind = OpKind::kBarrier};
  if (!HasRoot(operation.kind)) call.root = 0;
  if (!operation.started) return group.Run(call);
  WEFT_ASSIGN_OR_RETURN(const WorkRef work, group.Start(call));
  return work->Wait(0);
}

// The error of a group that ends before long.
absl::Status EndOf(ProcessGroup& group) {
  const int64_t until_ns = MonotonicNs() + kSoonNs;
  absl::Status ended;
  while ((ended = group.error()).ok() && MonotonicNs() < until_ns) {
    LookAfterGroups();
    usleep(200);
  }
  return ended;
}

std::string Problem(const absl::Status& ended, const ProcessGroup& group, int refuser,
                    const char* refused) {
  const std::string text(ended.message());
  const bool right = ResultOf(ended) == WEFT_MISMATCH && FieldsOf(ended).rank == refuser &&
                     text.find(StrCat("rank ", refuser)) != std::string::npos &&
                     text.find(StrCat(" refused ", refused)) != std::string::npos &&
                     text.find(StrCat("; rank ", refuser, " says: ", kWhy)) != std::string::npos;
  return right ? "" : StrCat("rank ", group.rank(), " was told: ", text);
}

TEST(Refusal, IsToldToAllRanksAtOnceWithTheReason) {
  for (const Operation& operation :
       {Operation{OpKind::kAllReduce}, Operation{OpKind::kAllReduce, true},
        Operation{OpKind::kBroadcast}, Operation{OpKind::kGather, true},
        Operation{OpKind::kReduceScatter}, Operation{OpKind::kAllToAll},
        Operation{OpKind::kBarrier}}) {
    SCOPED_TRACE(StrCat(OpKindName(operation.kind), operation.started ? ", started" : ""));
    OnAllShapes([&](ProcessGroup& group) -> std::string {
      const int refuser = group.size() / 2;
      auto part = group.Split(0, group.rank(), {.name = "part"});
      if (!part.ok()) return std::string(part.status().message());
      ProcessGroup& whole = **part;
      const int64_t begun_ns = MonotonicNs();
      std::string problem;
      if (whole.rank() == refuser) {
        const absl::Status told = whole.Refuse(operation.kind, kWhy);
        if (!told.ok()) problem = std::string(told.message());
        if (problem.empty())
          problem = Problem(EndOf(whole), whole, refuser, OpKindName(operation.kind));
      } else {
        // A rank may have done its part before it can know. Then the group tells it.
        absl::Status ended = Call(whole, operation, 1000);
        if (ended.ok()) ended = EndOf(whole);
        problem = Problem(ended, whole, refuser, OpKindName(operation.kind));
      }
      if (MonotonicNs() - begun_ns > kSoonNs) problem = "it came late";
      whole.Close();
      return problem;
    });
  }
}

TEST(Refusal, OfAllRanksLeavesTheGroupAsItWas) {
  OnAllShapes([](ProcessGroup& group) -> std::string {
    for (const size_t count : kCounts) {
      for (int time = 0; time < 3; ++time) {
        // Each in words of its own.
        const std::optional<OpKind> kind =
            group.rank() == 0 ? std::nullopt : std::optional(OpKind::kAllReduce);
        const absl::Status told = group.Refuse(kind, StrCat("rank ", group.rank()));
        if (!told.ok()) return std::string(told.message());
      }
      if (std::string problem = SumProblem(group, count); !problem.empty()) return problem;
    }
    return group.error().ok() ? "" : std::string(group.error().message());
  });
}

// More than the window of arrivals has room for, while others come late.
TEST(Refusal, OfAllRanksMayBeManyAndBetweenWorks) {
  OnAllShapes([](ProcessGroup& group) -> std::string {
    std::vector<int64_t> data(size_t{700}, 1);
    std::vector<WorkRef> works;
    for (size_t i = 0; i < 100; ++i) {
      if (!group.Refuse(OpKind::kScan, "no").ok()) return "a refusal was refused";
      auto work = group.Start({.kind = OpKind::kAllReduce,
                               .dtype = WEFT_INT64,
                               .count = 7,
                               .in = &data[7 * i],
                               .out = &data[7 * i]});
      if (!work.ok()) return std::string(work.status().message());
      works.push_back(*std::move(work));
    }
    for (const WorkRef& work : works) {
      if (const absl::Status status = work->Wait(0); !status.ok())
        return std::string(status.message());
    }
    if (data != std::vector<int64_t>(data.size(), group.size())) return "a wrong sum";
    return SumProblem(group, 3);
  });
}

// The first one that others meet is told, not the last.
TEST(Refusal, TheOldestOfSeveralIsTheReason) {
  OnAllShapes([](ProcessGroup& group) -> std::string {
    if (group.rank() != 0) return Problem(Call(group, {OpKind::kAllReduce}, 100), group, 0, "call");
    for (const char* const reason : {kWhy, "the second", "the third"}) {
      // The others may have ended the group by then.
      const absl::Status told = group.Refuse(std::nullopt, reason);
      if (!told.ok() && ResultOf(told) != WEFT_MISMATCH && ResultOf(told) != WEFT_ABORTED)
        return std::string(told.message());
    }
    return Problem(EndOf(group), group, 0, "call");
  });
}

// What nobody else comes to is no operation of the program's, and keeps nobody.
TEST(Refusal, OfOneRankAloneIsNotPendingAndHasNoDeadline) {
  SharedCount done;
  const auto body = [&](ProcessGroup& group) -> std::string {
    group.SetTimeout(1'000'000);
    if (group.rank() == 0) {
      if (!group.Refuse(OpKind::kReduce, kWhy).ok()) return "a refusal was refused";
      if (group.stats().pending != 0) return "it is pending";
    }
    const int64_t until_ns = MonotonicNs() + 50'000'000;
    while (MonotonicNs() < until_ns)
      LookAfterGroups();
    const absl::Status ended = group.error();
    // Nobody leaves before all have looked.
    done.Add();
    done.AwaitAtLeast(group.size());
    return ended.ok() ? "" : std::string(ended.message());
  };
  for (const int size : {1, 3}) {
    done.Reset();
    EXPECT_EQ(RunThreadRanks(size, {.name = "s"}, body), "");
  }
  done.Reset();
  RunNodes(Nodes{3, "0,0,1"}, body, -1, kTimeoutNs);
}

// "" if that is rank 1's refusal of an all_reduce, with its reason.
std::string NotTheRefusal(const absl::Status& ended) {
  if (ResultOf(ended) != WEFT_MISMATCH) return "got: " + std::string(ended.ToString());
  const std::string sentence(ended.message());
  const bool said = sentence.find("rank 1 refused all_reduce") != std::string::npos &&
                    sentence.find(kWhy) != std::string::npos;
  return said ? "" : "said: " + sentence;
}

// Rank 1 refuses a call, and leaves; the others make it, those who `come_later` when it has left.
void RefuseAndLeave(bool come_later, const std::function<void(ProcessGroup& group)>& leave) {
  SharedCount has_left;
  const auto body = [&](ProcessGroup& group) -> std::string {
    if (group.rank() == 1) {
      if (!group.Refuse(OpKind::kAllReduce, kWhy).ok()) return "a refusal was refused";
      leave(group);
      has_left.Add();
      return "";
    }
    if (come_later) has_left.AwaitAtLeast(1);
    return NotTheRefusal(Call(group, {OpKind::kAllReduce}, 13));
  };
  for (const int size : {2, 3, 5}) {
    has_left.Reset();
    EXPECT_EQ(RunThreadRanks(size, {.name = "s", .timeout_ns = kTimeoutNs}, body), "") << size;
  }
  for (const Nodes& shape : {Nodes{2, "2"}, Nodes{3, "0,0,1"}, Nodes{4, "0,1,0,1"}}) {
    has_left.Reset();
    RunNodes(shape, body, -1, kTimeoutNs);
  }
}

// Who comes after it has left is told what it refused, and not that it left.
TEST(Refusal, OfARankThatLeavesIsToldToThoseWhoComeLater) {
  RefuseAndLeave(true, [](ProcessGroup& group) { group.Close(); });
}

// The thread that would tell it is late: it looks at the group no more before that is closed.
TEST(Refusal, OfARankThatLeavesIsToldThoughNobodyLooksBefore) {
  RefuseAndLeave(true, [](ProcessGroup& group) {
    const HeldLook held(kHeldNs);
    group.Close();
  });
}

// Others find the same at that moment, and do not know why.
TEST(Refusal, OfARankThatLeavesAtOnceIsToldWithItsReason) {
  for (int round = 0; round < 5; ++round)
    RefuseAndLeave(false, [](ProcessGroup& group) { group.Close(); });
}

// Rank 0 speaks for the node of rank 1, and is in none of the groups that end there.
TEST(Refusal, OfSeveralGroupsThatOneRankLeavesIsToldInEach) {
  constexpr int kParts = 3;
  SharedCount has_left;
  SharedCount done;
  RunNodes(
      Nodes{3, "0,0,1"},
      [&](ProcessGroup& group) -> std::string {
        std::vector<std::shared_ptr<ProcessGroup>> parts;
        for (int i = 0; i < kParts; ++i) {
          auto part = group.Split(group.rank() == 0 ? -1 : 0, -group.rank(), {.name = "part"});
          if (!part.ok()) return std::string(part.status().message());
          parts.push_back(*std::move(part));
        }
        std::string problem;
        if (group.rank() == 0) {
          done.AwaitAtLeast(1);
        } else if (group.rank() == 1) {
          for (const auto& part : parts) {
            if (!part->Refuse(OpKind::kAllReduce, kWhy).ok()) problem = "a refusal was refused";
            part->Close();
          }
          has_left.Add();
        } else {
          has_left.AwaitAtLeast(1);
          for (const auto& part : parts) {
            if (problem.empty()) problem = NotTheRefusal(Call(*part, {OpKind::kAllReduce}, 13));
            part->Close();
          }
          done.Add();
        }
        return problem;
      },
      -1, kTimeoutNs);
}

TEST(Refusal, OfSeveralRanksIsToldWithAReason) {
  OnAllShapes([](ProcessGroup& group) -> std::string {
    if (group.size() < 3) return "";
    absl::Status ended;
    if (group.rank() < 2) {
      const absl::Status told = group.Refuse(OpKind::kScan, kWhy);
      if (!told.ok() && ResultOf(told) != WEFT_MISMATCH) return std::string(told.message());
      ended = EndOf(group);
    } else {
      ended = Call(group, {OpKind::kScan}, 10);
    }
    const std::string text(ended.message());
    const bool right = ResultOf(ended) == WEFT_MISMATCH && FieldsOf(ended).rank < 2 &&
                       text.find(" refused scan") != std::string::npos &&
                       text.find(kWhy) != std::string::npos;
    return right ? "" : text;
  });
}

TEST(Refusal, ALongReasonIsCut) {
  EXPECT_EQ(RunThreadRanks(2, {.name = "s"},
                           [](ProcessGroup& group) -> std::string {
                             if (group.rank() == 0)
                               (void)group.Refuse(OpKind::kReduce, std::string(5000, 'y'));
                             const std::string text(
                                 group.rank() == 0 ? EndOf(group).message()
                                                   : Call(group, {OpKind::kReduce}, 3).message());
                             const bool has = text.find(std::string(100, 'y')) != std::string::npos;
                             return has && text.size() < 640 ? "" : text;
                           }),
            "");
}

}  // namespace
}  // namespace weft::test::refusal_test

// 64 ranks on islands, simulated: every kind, types, operations and odd sizes, in the schedules that groups over several nodes take, over
// links whose speeds a seed says. Results bit for bit those of the reference.
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "base/wait.h"
#include "comm/hierarchy/span_call.h"
#include "comm/hierarchy/span_plan.h"
#include "comm/transport/simulated_network.h"
#include "tests/comm/node/collective_case.h"
#include "tests/support/case_sample.h"
#include "tests/support/leak_check.h"

namespace weft::test::span_simulation_test {
namespace {

constexpr int kRanks = 64;

Islands IslandsBy(int (*node_of)(int rank), int ranks = kRanks) {
  Membership membership;
  for (int rank = 0; rank < ranks; ++rank)
    membership.members.push_back({.rank = rank, .fake_node = node_of(rank)});
  return IslandsOf(membership);
}

std::vector<Islands> AllShapes() {
  return {IslandsBy([](int rank) { return rank / 8; }),
          IslandsBy([](int rank) { return rank / 32; }),
          IslandsBy([](int rank) { return rank % 4; }),
          IslandsBy([](int rank) { return rank < 5 ? 0 : 1 + rank / 24; }),
          IslandsBy([](int rank) { return rank; })};
}

// All ranks of a group, stepped by one thread.
class SimulatedGroup {
 public:
  // `links`: by which schedules are chosen.
  explicit SimulatedGroup(const Islands& islands, const LinkModel& links = LinkModel::Default())
      : islands_(islands), links_(links) {
    for (int rank = 0; rank < size(); ++rank) {
      plans_.emplace_back(rank, islands_, links_, foreign_, BestIsa(), buffers_);
      peers_.push_back(rank);
    }
  }

  SimulatedGroup(const SimulatedGroup&) = delete;
  SimulatedGroup& operator=(const SimulatedGroup&) = delete;

  // "" or what is wrong.
  std::string Run(const CollectiveCase& test) {
    SimulatedNetwork network(islands_.island_of, LinksOf(test.seed));
    std::vector<One> ranks(peers_.size());
    for (int rank = 0; rank < size(); ++rank) {
      One& one = ranks[static_cast<size_t>(rank)];
      if (std::string problem = Begin(rank, test, network, &one); !problem.empty()) return problem;
    }
    for (std::vector<int> next = peers_; !next.empty(); next = network.GoOn()) {
      for (const int rank : next)
        (void)ranks[static_cast<size_t>(rank)].run->engine.Step();
    }
    for (int rank = 0; rank < size(); ++rank) {
      One& one = ranks[static_cast<size_t>(rank)];
      if (!one.run->engine.done()) return StrCat("rank ", rank, " does not end: ", test.Name());
      one.span->Finish();
      one.plan->Keep(std::move(one.run));
      if (std::string problem = one.call->Check(); !problem.empty()) return problem;
    }
    simulated_ns_ += network.now_ns();
    return "";
  }

  int size() const { return static_cast<int>(islands_.island_of.size()); }

  int64_t simulated_ns() const { return simulated_ns_; }

 private:
  struct One {
    std::unique_ptr<CaseCall> call;
    std::shared_ptr<SpanPlan> plan;
    std::unique_ptr<SpanCall> span;
    std::unique_ptr<Transport> transport;
    std::unique_ptr<SpanRun> run;
  };

  static LinkModel LinksOf(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto cost = [&random] {
      return LinkCost{.latency_ns = static_cast<int64_t>(random() % 20'000),
                      .overhead_ns = static_cast<int64_t>(random() % 2'000),
                      .ns_per_byte = static_cast<double>(random() % 100) / 10};
    };
    LinkModel model{.near = cost(), .far = cost()};
    model.ahead_bytes = random() % 3 == 0 ? 0 : 8192;
    return model;
  }

  std::string Begin(int rank, const CollectiveCase& test, SimulatedNetwork& network, One* one) {
    one->call =
        std::make_unique<CaseCall>(rank, size(), test, LocalChoice::FromSeed(test.seed, rank));
    if (!one->call->problem().empty()) return one->call->problem();
    const Collective& call = one->call->call();
    if (const absl::Status checked = CheckCollective(call, rank, size()); !checked.ok())
      return std::string(checked.message());
    auto plan = plans_[static_cast<size_t>(rank)].PlanOf(call);
    if (!plan.ok()) return std::string(plan.status().message());
    one->plan = *plan;
    one->span = std::make_unique<SpanCall>(call, rank, *one->plan, buffers_);
    one->transport = network.Join(rank);
    one->run = one->plan->TakeRun();
    RunMemory memory = one->span->Begin();
    memory.scratch = one->run->scratch.data();
    one->run->engine.Begin(memory, {.transport = one->transport.get(),
                                    .peers = peers_,
                                    .stream = {1, 1},
                                    .signature = static_cast<uint32_t>(test.seed)});
    return "";
  }

  const Islands& islands_;
  const LinkModel links_;
  const ForeignSchedules foreign_;
  const std::shared_ptr<NetBuffers> buffers_ = std::make_shared<NetBuffers>(64 << 20);
  std::vector<SpanPlans> plans_;
  std::vector<int> peers_;
  int64_t simulated_ns_ = 0;
};

std::vector<CollectiveCase> AllCases(uint64_t seed) {
  constexpr weft_dtype_t kTypes[] = {
      WEFT_FLOAT32, WEFT_FLOAT64, WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2,
      WEFT_INT8,    WEFT_UINT8,   WEFT_INT32,   WEFT_UINT32,   WEFT_INT64,       WEFT_UINT64};
  constexpr size_t kElementCounts[] = {2, 7, 4, 1, 3};
  std::vector<CollectiveCase> cases;
  for (int number = 0; number < kOpKindCount; ++number) {
    const auto kind = static_cast<OpKind>(number);
    for (const weft_dtype_t dtype : kTypes) {
      for (const weft_op_t op :
           {WEFT_SUM, WEFT_PROD, WEFT_AVG, WEFT_MIN, WEFT_MAX, kOpPremulSum, kOpUser}) {
        if (!TraitsOf(kind).reduces && op != WEFT_SUM) continue;
        for (const size_t count : {0UL, 1UL, 5UL, 63UL, 65UL, 257UL}) {
          const uint64_t number_of_case = cases.size();
          cases.push_back({.kind = kind,
                           .dtype = dtype,
                           .op = op,
                           .root = static_cast<int>(number_of_case * 7 % kRanks),
                           .count = kind == OpKind::kBarrier ? 0 : count,
                           .seed = seed + number_of_case + 1,
                           .element_count = kElementCounts[number_of_case % 5]});
        }
      }
    }
  }
  return cases;
}

TEST(SpanSimulation, SixtyFourRanksDoTheWholeMatrix) {
  const uint64_t seed = TestSeed(43);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  const std::vector<CollectiveCase> cases = AllCases(seed);
  const CaseSample sample({.every = 19, .sanitized = 397}, seed);
  const std::vector<Islands> shapes = AllShapes();
  std::vector<std::unique_ptr<SimulatedGroup>> groups;
  for (const Islands& islands : shapes)
    groups.push_back(std::make_unique<SimulatedGroup>(islands));
  const int64_t begin_ns = MonotonicNs();
  size_t run = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (!sample.Takes(i)) continue;
    ASSERT_EQ(groups[run++ % groups.size()]->Run(cases[i]), "") << cases[i].Name();
  }
  sample.Print("64 simulated ranks", cases.size());
  int64_t simulated_ns = 0;
  for (const auto& group : groups)
    simulated_ns += group->simulated_ns();
  std::printf("%.1f simulated seconds in %.1f\n", static_cast<double>(simulated_ns) * 1e-9,
              static_cast<double>(MonotonicNs() - begin_ns) * 1e-9);
}

// What carried out a call carries out the next one like it.
TEST(SpanSimulation, CallsOfOneShapeFollowEachOther) {
  const uint64_t seed = TestSeed(47);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  constexpr int (*kNodeOf[])(int rank) = {[](int rank) { return rank < 3 ? 0 : 1; },
                                          [](int rank) { return rank % 2; },
                                          [](int rank) { return rank / 2; },
                                          [](int rank) {
                                            return rank;
                                          }};
  for (const auto node_of : kNodeOf) {
    const Islands islands = IslandsBy(node_of, 4);
    SimulatedGroup group(islands);
    for (int number = 0; number < kOpKindCount; ++number) {
      for (const size_t count : {5UL, 2'053UL, 16'384UL}) {
        const auto kind = static_cast<OpKind>(number);
        if (kind == OpKind::kBarrier && count > 5) continue;
        for (uint64_t call = 0; call < 2; ++call) {
          ASSERT_EQ(group.Run({.kind = kind,
                               .dtype = WEFT_FLOAT32,
                               .op = WEFT_SUM,
                               .count = kind == OpKind::kBarrier ? 0 : count,
                               .seed = seed + call}),
                    "");
        }
      }
    }
  }
}

// The bits of one island, whatever the map of ranks, whether contributions are added along the tree or not: all types and operations, with NaNs
// of all kinds, infinities and signed zeros among the numbers (collective_model.h).
TEST(SpanSimulation, OrdersThatAreFreeHaveTheSameBits) {
  const uint64_t seed = TestSeed(49);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  const std::vector<Islands> shapes = {
      IslandsBy([](int rank) { return rank % 2; }, 4),
      IslandsBy([](int rank) { return rank / 3; }, 4),
      IslandsBy([](int rank) { return rank / 2; }, 4),
      IslandsBy([](int rank) { return rank < 7 ? 0 : (rank + 1) / 8; }, 23)};
  std::vector<CollectiveCase> cases;
  for (const weft_dtype_t dtype : kDtypes) {
    for (const weft_op_t op :
         {WEFT_SUM, WEFT_PROD, WEFT_AVG, WEFT_MIN, WEFT_MAX, WEFT_MIN_LOC, WEFT_MAX_LOC,
          WEFT_BIT_AND, WEFT_BIT_OR, WEFT_BIT_XOR, kOpPremulSum}) {
      if (!HasReduction(dtype, op)) continue;
      // Whole or direct; lanes.
      for (const size_t bytes : {size_t{300}, size_t{34'000}}) {
        for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduce, OpKind::kReduceScatter}) {
          const size_t block_bytes = kind == OpKind::kReduceScatter ? bytes / 4 : bytes;
          cases.push_back({.kind = kind,
                           .dtype = dtype,
                           .op = op,
                           .root = static_cast<int>(cases.size() % 4),
                           .count = block_bytes / ElementBytes(dtype, op) + 1,
                           .seed = seed + cases.size()});
        }
      }
    }
  }
  const CaseSample sample({.every = 11, .sanitized = 97}, seed);
  std::vector<std::unique_ptr<SimulatedGroup>> groups;
  groups.reserve(shapes.size());
  for (const Islands& islands : shapes)
    groups.push_back(std::make_unique<SimulatedGroup>(islands));
  for (size_t i = 0; i < cases.size(); ++i) {
    for (size_t shape = 0; shape < groups.size(); ++shape) {
      if (!sample.Takes(i * groups.size() + shape)) continue;
      ASSERT_EQ(groups[shape]->Run(cases[i]), "") << cases[i].Name() << ", shape " << shape;
    }
  }
  sample.Print("orders that are free", cases.size() * groups.size());
}

// Whichever schedules measured links ask for.
TEST(SpanSimulation, MeasuredLinksChangeNoBit) {
  const uint64_t seed = TestSeed(49);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  constexpr LinkCost kLinks[] = {
      {.latency_ns = 10'000'000, .overhead_ns = 5'000, .ns_per_byte = 0.08},
      {.latency_ns = 2'000, .overhead_ns = 500, .ns_per_byte = 8},
      {.latency_ns = 40'000, .overhead_ns = 5'000, .ns_per_byte = 0.8}};
  constexpr int (*kNodeOf[])(int rank) = {[](int rank) { return rank < 3 ? 0 : 1; },
                                          [](int rank) { return rank % 2; },
                                          [](int rank) {
                                            return rank;
                                          }};
  uint64_t number_of_case = 0;
  for (const auto node_of : kNodeOf) {
    const Islands islands = IslandsBy(node_of, 6);
    for (const LinkCost& far : kLinks) {
      LinkModel links = LinkModel::Default();
      links.far = far;
      links.source = LinkSource::kMeasured;
      SimulatedGroup group(islands, links);
      for (int number = 0; number < kOpKindCount; ++number) {
        const auto kind = static_cast<OpKind>(number);
        for (const size_t count : {3UL, 4'099UL, 30'011UL}) {
          if (kind == OpKind::kBarrier && count > 3) continue;
#if defined(WEFT_SANITIZE)
          if (count > 5'000) continue;
#endif
          const CollectiveCase test{.kind = kind,
                                    .dtype = number_of_case % 2 == 0 ? WEFT_BFLOAT16 : WEFT_FLOAT32,
                                    .op = !TraitsOf(kind).reduces   ? WEFT_SUM
                                          : number_of_case % 5 == 0 ? kOpPremulSum
                                          : number_of_case % 3 == 0 ? WEFT_AVG
                                                                    : WEFT_SUM,
                                    .root = static_cast<int>(number_of_case % 6),
                                    .count = kind == OpKind::kBarrier ? 0 : count,
                                    .seed = seed + number_of_case};
          ++number_of_case;
          ASSERT_EQ(group.Run(test), "") << test.Name();
        }
      }
    }
  }
}

// Lanes of whole vectors, which begin where these are large.
TEST(SpanSimulation, LargeVectorsGoInLanes) {
  const uint64_t seed = TestSeed(44);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  const std::vector<Islands> shapes = AllShapes();
  for (size_t i = 0; i < shapes.size(); ++i) {
    SimulatedGroup group(shapes[i]);
    for (const OpKind kind : {OpKind::kReduce, OpKind::kBroadcast}) {
      ASSERT_EQ(group.Run({.kind = kind,
                           .dtype = WEFT_FLOAT32,
                           .op = WEFT_SUM,
                           .root = static_cast<int>(13 * i),
                           .count = 8219,
                           .seed = seed + i}),
                "");
    }
  }
}

}  // namespace
}  // namespace weft::test::span_simulation_test

// Schedules carried out on memory, over a network in memory whose deliveries a seed orders, and over TCP: every goal and algorithm,
// results bit for bit those of one kernel over all contributions.
#include "comm/engine/schedule_run.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/net.h"
#include "base/seams.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "comm/kernels/reduce_stage.h"
#include "comm/schedule/algorithms.h"
#include "comm/schedule/tree_pieces.h"
#include "comm/transport/memory_network.h"
#include "comm/transport/tcp_transport.h"
#include "tests/support/case_sample.h"

namespace weft::test::schedule_run_test {
namespace {

constexpr int64_t kLimitNs = 60'000'000'000;
constexpr uint64_t kGroup = 9;

using Memory = std::vector<std::byte>;

// Numbers that differ and whose sums round: random mantissas, exponents close to each other.
Memory RandomUnits(weft_dtype_t dtype, size_t count, std::mt19937_64* random) {
  Memory memory(count * DtypeSize(dtype));
  for (std::byte& byte : memory)
    byte = static_cast<std::byte>((*random)());
  if (!IsFloatingDtype(dtype)) return memory;
  // As float32 first, then rounded to the type by a reduction of one source.
  std::vector<float> values(count);
  std::uniform_real_distribution<float> spread(-2, 2);
  for (float& value : values)
    value = spread(*random);
  if (dtype == WEFT_FLOAT64) {
    for (size_t i = 0; i < count; ++i) {
      const double value = static_cast<double>(values[i]) / 3;
      std::memcpy(memory.data() + i * sizeof(value), &value, sizeof(value));
    }
    return memory;
  }
  const void* const source = values.data();
  void* const to = memory.data();
  FindReduceKernel(Isa::kScalar, dtype, WEFT_SUM, ReduceStage::kLast)({.sources = &source,
                                                                       .source_count = 1,
                                                                       .destinations = &to,
                                                                       .destination_count = 1,
                                                                       .count = count});
  return memory;
}

struct Case {
  ScheduleGoal goal;
  std::string algorithm;
  weft_dtype_t dtype = WEFT_FLOAT32;
  weft_op_t op = WEFT_SUM;
  bool in_place = false;

  std::string Name() const {
    return StrCat(GoalName(goal.kind), " by ", algorithm, ", ", goal.participants,
                  " participants, ", goal.count, " units, ", DtypeName(dtype), " op ",
                  static_cast<int>(op), goal.order_free ? ", in any order" : "",
                  in_place ? ", in place" : "");
  }
};

class Job {
 public:
  Job(const Case& one, bool tcp, uint64_t seed) : one_(one), random_(seed) {
    const int size = one.goal.participants;
    if (tcp) {
      std::vector<UniqueFd> reserved;
      std::vector<std::vector<Endpoint>> endpoints;
      for (int i = 0; i < size; ++i) {
        Endpoint endpoint{.kind = Endpoint::Kind::kTcp, .host = "127.0.0.1"};
        reserved.push_back(ReserveEndpoint(&endpoint).value());
        endpoints.push_back({endpoint});
      }
      for (int i = 0; i < size; ++i) {
        transports_.push_back(
            TcpTransport::Make(SystemSeams(), {.secret = "s", .self = i, .endpoints = endpoints})
                .value());
      }
    } else {
      network_ = std::make_unique<MemoryNetwork>(size, seed);
      for (int i = 0; i < size; ++i)
        transports_.push_back(network_->Join(i));
    }
    peers_.resize(static_cast<size_t>(size));
    std::iota(peers_.begin(), peers_.end(), 0);
  }

  // "" if all results are right.
  std::string Run(const CollectiveSchedule& schedule) {
    Prepare(schedule);
    std::vector<std::unique_ptr<ScheduleRun>> runs;
    for (int i = 0; i < one_.goal.participants; ++i)
      runs.push_back(
          std::make_unique<ScheduleRun>(schedule, i, arithmetic_[static_cast<size_t>(i)]));
    if (std::string wrong = RunOnce(runs, 1); !wrong.empty() || one_.in_place) return wrong;
    // The same objects carry out the next call.
    for (Memory& output : outputs_)
      std::fill(output.begin(), output.end(), std::byte{0x5a});
    return RunOnce(runs, 2);
  }

 private:
  std::string RunOnce(const std::vector<std::unique_ptr<ScheduleRun>>& runs, uint64_t sequence) {
    for (size_t at = 0; at < runs.size(); ++at) {
      runs[at]->Begin(Buffers(static_cast<int>(at)), {.transport = transports_[at].get(),
                                                      .peers = peers_,
                                                      .stream = {kGroup, sequence},
                                                      .signature = 3});
    }
    const int64_t until_ns = MonotonicNs() + kLimitNs;
    const auto done = [&] {
      return std::all_of(runs.begin(), runs.end(), [](const auto& run) { return run->done(); });
    };
    while (!done()) {
      if (MonotonicNs() > until_ns) return "it does not end";
      // Whoever the seed says goes next.
      const size_t at = random_() % runs.size();
      runs[at]->Step();
      if (runs[at]->failed() != nullptr) return "a message has failed";
      transports_[at]->Advance();
    }
    return Check();
  }

  size_t ElementBytes() const { return DtypeSize(one_.dtype); }

  void Prepare(const CollectiveSchedule& schedule) {
    const ScheduleGoal& goal = one_.goal;
    for (int i = 0; i < goal.participants; ++i) {
      arithmetic_.push_back(
          goal.Reduces() ? UnitArithmetic::Of(BestIsa(), one_.dtype, one_.op, goal.SummedPieces(i))
                         : UnitArithmetic(ElementBytes()));
      inputs_.push_back(RandomUnits(one_.dtype, BufferUnits(goal, i, kInputBuffer), &random_));
      outputs_.emplace_back(BufferUnits(goal, i, kOutputBuffer) * ElementBytes());
      scratch_.emplace_back(ScheduleRun::ScratchBytes(schedule, i, arithmetic_.back()) + 64);
      in_place_at_.push_back(0);
    }
    given_ = inputs_;
    if (!one_.in_place) return;
    for (int i = 0; i < goal.participants; ++i) {
      // The smaller side is the participant's block of the larger one.
      const auto at = static_cast<size_t>(i);
      Memory& in = inputs_[at];
      Memory& out = outputs_[at];
      const size_t block = std::min(in.size(), out.size()) * at;
      in_place_at_[at] = in.size() == out.size() ? 0 : block;
      if (!in.empty() && in.size() < out.size())
        std::memcpy(out.data() + in_place_at_[at], in.data(), in.size());
    }
  }

  RunMemory Buffers(int participant) {
    const auto at = static_cast<size_t>(participant);
    RunMemory memory{.input = inputs_[at].data(), .output = outputs_[at].data()};
    const auto scratch = reinterpret_cast<uintptr_t>(scratch_[at].data());
    memory.scratch = scratch_[at].data() + (64 - scratch % 64) % 64;
    if (!one_.in_place) return memory;
    if (inputs_[at].size() < outputs_[at].size()) {
      memory.input = memory.output + in_place_at_[at];
    } else {
      memory.output = memory.input + in_place_at_[at];
    }
    return memory;
  }

  // Of participants 0 to `participants` - 1.
  Memory Sum(int participants) const {
    Memory sum(given_[0].size());
    std::vector<const void*> sources;
    for (int i = 0; i < participants; ++i)
      sources.push_back(given_[static_cast<size_t>(i)].data());
    void* const to = sum.data();
    FindReduceKernel(Isa::kScalar, one_.dtype,
                     one_.op)({.sources = sources.data(),
                               .source_count = static_cast<int>(sources.size()),
                               .destinations = &to,
                               .destination_count = 1,
                               .count = sum.size() / ElementBytes(),
                               .divisor = participants});
    return sum;
  }

  Memory Expected(int participant) const {
    const ScheduleGoal& goal = one_.goal;
    const size_t block = goal.count * ElementBytes();
    const auto at = static_cast<size_t>(participant);
    const auto part = [&](const Memory& of, size_t index) {
      return Memory(of.begin() + static_cast<ptrdiff_t>(index * block),
                    of.begin() + static_cast<ptrdiff_t>((index + 1) * block));
    };
    Memory all;
    switch (goal.kind) {
      case GoalKind::kAllReduce:
      case GoalKind::kReduce:
      case GoalKind::kScan:
      case GoalKind::kExscan:
        return Sum(goal.SummedPieces(participant));
      case GoalKind::kReduceScatter:
        return part(Sum(goal.participants), at);
      case GoalKind::kBroadcast:
        return given_[static_cast<size_t>(goal.root)];
      case GoalKind::kScatter:
        return part(given_[static_cast<size_t>(goal.root)], at);
      case GoalKind::kAllGather:
      case GoalKind::kGather:
        for (const Memory& given : given_)
          all.insert(all.end(), given.begin(), given.end());
        return all;
      case GoalKind::kAllToAll:
        for (const Memory& given : given_) {
          const Memory piece = part(given, at);
          all.insert(all.end(), piece.begin(), piece.end());
        }
        return all;
      case GoalKind::kBarrier:
        break;
    }
    return all;
  }

  std::string Check() {
    for (int i = 0; i < one_.goal.participants; ++i) {
      const auto at = static_cast<size_t>(i);
      const size_t bytes = outputs_[at].size();
      if (bytes == 0) continue;
      const RunMemory memory = Buffers(i);
      const Memory result(memory.output, memory.output + bytes);
      if (result != Expected(i)) return StrCat("participant ", i, " has another result");
      if (!one_.in_place && inputs_[at] != given_[at])
        return StrCat("the input of ", i, " was written");
    }
    return "";
  }

  const Case one_;
  std::mt19937_64 random_;
  std::unique_ptr<MemoryNetwork> network_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<int> peers_;
  std::vector<UnitArithmetic> arithmetic_;
  std::vector<Memory> inputs_;
  std::vector<Memory> outputs_;
  std::vector<Memory> scratch_;
  std::vector<Memory> given_;
  std::vector<size_t> in_place_at_;
};

// Runs it if the algorithm serves the goal.
bool RunCase(Case one, bool tcp, uint64_t seed) {
  auto schedule = MakeSchedule(one.algorithm, one.goal);
  if (!schedule.ok()) return false;
  if (one.in_place && (!(*schedule)->in_place() || !HasPlaceInPlace(one.goal))) return false;
  const std::string problem = Job(one, tcp, seed).Run(**schedule);
  EXPECT_EQ(problem, "") << one.Name() << ", WEFT_TEST_SEED=" << seed;
  return true;
}

constexpr weft_dtype_t kDtypes2[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16, WEFT_FLOAT8_E4M3,
                                     WEFT_FLOAT64, WEFT_INT32,    WEFT_UINT8};

TEST(ScheduleRun, EveryGoalByEveryAlgorithmHasTheBitsOfOneKernel) {
  const uint64_t first = FirstSeedToTry(1);
  uint64_t seed = first;
  int runs = 0;
  for (const ScheduleAlgorithm& algorithm : kScheduleAlgorithms) {
    for (const GoalKind kind : kGoalKinds) {
      for (const int participants : {1, 2, 3, 4, 5, 7, 8, 13}) {
        for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{5}, uint64_t{1000}}) {
          for (const bool in_place : {false, true}) {
            ++seed;
            const weft_dtype_t dtype = kDtypes2[seed % std::size(kDtypes2)];
            ScheduleGoal goal{.kind = kind,
                              .participants = participants,
                              .count = kind == GoalKind::kBarrier ? 0 : count,
                              .root = static_cast<int>(seed % static_cast<uint64_t>(participants))};
            if (!goal.HasRoot()) goal.root = 0;
            const weft_op_t op = seed % 3 == 0 ? WEFT_AVG : seed % 3 == 1 ? WEFT_SUM : WEFT_MAX;
            goal.order_free = goal.Reduces() && !RoundsOnTheWay(dtype, op);
            runs += RunCase({goal, std::string(algorithm.name), dtype, op, in_place}, false, seed);
          }
        }
      }
    }
  }
  std::printf("%d schedules carried out, seeds from %llu on\n", runs,
              static_cast<unsigned long long>(first));
  EXPECT_GT(runs, 600);
}

TEST(ScheduleRun, TheSameOverTcp) {
  uint64_t seed = FirstSeedToTry(1);
  int runs = 0;
  for (const ScheduleAlgorithm& algorithm : kScheduleAlgorithms) {
    for (const GoalKind kind : kGoalKinds) {
      for (const int participants : {2, 3, 5}) {
        ++seed;
        const ScheduleGoal goal{
            .kind = kind,
            .participants = participants,
            .count = kind == GoalKind::kBarrier ? uint64_t{0} : uint64_t{40'000}};
        runs += RunCase({goal, std::string(algorithm.name), WEFT_BFLOAT16, WEFT_SUM}, true, seed);
      }
    }
  }
  EXPECT_GT(runs, 30);
}

// Islands that are no subtrees sum their pieces themselves; the rest is the schedule's.
TEST(ScheduleRun, PiecesOfIslandsSumToTheBitsOfAllRanks) {
  const uint64_t first = FirstSeedToTry(1);
  for (uint64_t seed = first; seed < first + 60; ++seed) {
    SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
    std::mt19937_64 random(seed);
    const int ranks = 2 + static_cast<int>(random() % 11);
    const int islands = 2 + static_cast<int>(random() % 2);
    std::vector<int> island_of(static_cast<size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank)
      island_of[static_cast<size_t>(rank)] =
          rank < islands ? rank : static_cast<int>(random() % static_cast<uint64_t>(islands));
    if (random() % 2 == 0) std::sort(island_of.begin(), island_of.end());
    const weft_dtype_t dtype = random() % 2 == 0 ? WEFT_BFLOAT16 : WEFT_FLOAT32;
    const uint64_t count = 1 + random() % 700;
    const TreePieces tree = PiecesOf(island_of);
    std::vector<OrderPiece> pieces;
    for (const TreePiece& piece : tree.pieces) {
      pieces.push_back(
          {piece.island, piece.rank_count == 1 ? UnitForm::kElement : UnitForm::kAccumulator});
    }
    ScheduleGoal goal{.kind = GoalKind::kAllReduce, .participants = islands, .count = count};
    goal.order = ReductionOrder::Create(islands, pieces, tree.merges).value();
    const auto schedule = MakeSchedule("direct", goal);
    ASSERT_TRUE(schedule.ok()) << schedule.status();

    const UnitArithmetic arithmetic = UnitArithmetic::Of(BestIsa(), dtype, WEFT_AVG, ranks);
    const size_t accumulator = arithmetic.BytesOf(UnitForm::kAccumulator);
    std::vector<Memory> given;
    for (int rank = 0; rank < ranks; ++rank)
      given.push_back(RandomUnits(dtype, count, &random));
    std::vector<Memory> inputs(static_cast<size_t>(islands));
    std::vector<Memory> partials(static_cast<size_t>(islands));
    for (const TreePiece& piece : tree.pieces) {
      const auto at = static_cast<size_t>(piece.island);
      std::vector<UnitSource> sources;
      for (int rank = piece.first_rank; rank < piece.first_rank + piece.rank_count; ++rank)
        sources.push_back({given[static_cast<size_t>(rank)].data(), UnitForm::kElement});
      if (piece.rank_count == 1) {
        inputs[at].insert(inputs[at].end(), sources[0].units,
                          sources[0].units + count * DtypeSize(dtype));
        continue;
      }
      partials[at].resize(partials[at].size() + count * accumulator);
      arithmetic.Add(SumStage::kPartial, UnitForm::kAccumulator, sources, {},
                     partials[at].data() + partials[at].size() - count * accumulator, count);
    }
    MemoryNetwork network(islands, seed);
    std::vector<int> peers(static_cast<size_t>(islands));
    std::iota(peers.begin(), peers.end(), 0);
    std::vector<Memory> outputs;
    std::vector<Memory> scratch;
    std::vector<std::unique_ptr<Transport>> transports;
    std::vector<std::unique_ptr<ScheduleRun>> runs;
    for (int i = 0; i < islands; ++i) {
      outputs.emplace_back(count * DtypeSize(dtype));
      scratch.emplace_back(ScheduleRun::ScratchBytes(**schedule, i, arithmetic));
      transports.push_back(network.Join(i));
    }
    for (int i = 0; i < islands; ++i) {
      const auto at = static_cast<size_t>(i);
      runs.push_back(std::make_unique<ScheduleRun>(**schedule, i, arithmetic));
      runs.back()->Begin(
          {inputs[at].data(), outputs[at].data(), partials[at].data(), scratch[at].data()},
          {transports[at].get(), peers, {kGroup, 1}, 5});
    }
    const int64_t until_ns = MonotonicNs() + kLimitNs;
    while (!std::all_of(runs.begin(), runs.end(), [](const auto& run) { return run->done(); })) {
      ASSERT_LT(MonotonicNs(), until_ns);
      for (size_t at = 0; at < runs.size(); ++at) {
        runs[at]->Step();
        transports[at]->Advance();
      }
    }
    Memory expected(count * DtypeSize(dtype));
    std::vector<const void*> sources;
    for (const Memory& one : given)
      sources.push_back(one.data());
    void* const to = expected.data();
    FindReduceKernel(Isa::kScalar, dtype, WEFT_AVG)({.sources = sources.data(),
                                                     .source_count = ranks,
                                                     .destinations = &to,
                                                     .destination_count = 1,
                                                     .count = count,
                                                     .divisor = ranks});
    for (const Memory& output : outputs)
      EXPECT_TRUE(output == expected);
  }
}

TEST(ScheduleRun, ACallThatDiffersEndsIt) {
  const ScheduleGoal goal{.kind = GoalKind::kAllReduce, .participants = 2, .count = 4};
  const auto schedule = MakeSchedule("direct", goal).value();
  const UnitArithmetic arithmetic = UnitArithmetic::Of(BestIsa(), WEFT_INT32, WEFT_SUM, 2);
  MemoryNetwork network(2);
  const int peers[] = {0, 1};
  std::vector<Memory> memory;
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::unique_ptr<ScheduleRun>> runs;
  for (int i = 0; i < 6; ++i)
    memory.emplace_back(4096);
  for (int i = 0; i < 2; ++i) {
    const auto at = static_cast<size_t>(3 * i);
    transports.push_back(network.Join(i));
    runs.push_back(std::make_unique<ScheduleRun>(*schedule, i, arithmetic));
    runs.back()->Begin(
        {.input = memory[at].data(),
         .output = memory[at + 1].data(),
         .scratch = memory[at + 2].data()},
        {transports.back().get(), peers, {kGroup, 1}, static_cast<uint32_t>(40 + i)});
  }
  for (int round = 0; round < 20; ++round) {
    for (size_t at = 0; at < 2; ++at) {
      runs[at]->Step();
      transports[at]->Advance();
    }
  }
  for (size_t at = 0; at < 2; ++at) {
    ASSERT_NE(runs[at]->failed(), nullptr);
    EXPECT_EQ(runs[at]->failed()->state(), TransferState::kMismatch);
    EXPECT_EQ(runs[at]->failed()->other_signature, 41 - at);
    transports[at]->CloseGroup(kGroup);
  }
}

}  // namespace
}  // namespace weft::test::schedule_run_test

// Calls that a group has done before: found by their arguments, with other buffers each time.
#include <cstdint>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "collective_case.h"
#include "comm/group/call_key.h"
#include "comm/group/plain_buffers.h"
#include "comm/group/process_group.h"
#include "rank_threads.h"

namespace weft::test::repeated_call_test {
namespace {

constexpr OpKind kPlainKinds[] = {OpKind::kAllReduce, OpKind::kReduce,        OpKind::kBroadcast,
                                  OpKind::kAllGather, OpKind::kReduceScatter, OpKind::kGather,
                                  OpKind::kScatter,   OpKind::kAllToAll,      OpKind::kScan,
                                  OpKind::kExscan};
constexpr weft_dtype_t kTypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_INT64};
constexpr size_t kCounts[] = {0, 1, 2, 12, 500, 3000};

Collective Sum(const void* in, void* out, size_t count) {
  return {.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = count, .in = in, .out = out};
}

bool RunsAgain(ProcessGroup& group, const Collective& call) {
  absl::Status failure;
  return group.TryRunCached(KeyOf(call), call.in, call.out, &failure);
}

class RepeatedCalls : public ::testing::TestWithParam<int> {};

// More different calls than a group keeps, in an order in which some are found and some are not.
TEST_P(RepeatedCalls, GiveTheSameBitsAsFirstOnes) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "again"},
                           [seed](ProcessGroup& group) -> std::string {
                             std::mt19937_64 alike(seed);
                             CollectiveCase test;
                             for (uint64_t step = 0; step < 400; ++step) {
                               if (alike() % 3 == 0) {
                                 test.kind = kPlainKinds[alike() % std::size(kPlainKinds)];
                                 test.dtype = kTypes[alike() % std::size(kTypes)];
                                 test.count = kCounts[alike() % std::size(kCounts)];
                                 test.root = static_cast<int>(alike() %
                                                              static_cast<uint64_t>(group.size()));
                               }
                               test.seed = seed + step;
                               const auto choice = LocalChoice::FromSeed(seed ^ step, group.rank());
                               std::string problem = RunCase(group, test, choice);
                               if (!problem.empty()) return problem;
                             }
                             return "";
                           }),
            "");
}

TEST_P(RepeatedCalls, AreKnownOnlyOnceDone) {
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "known"},
                           [](ProcessGroup& group) -> std::string {
                             float in[4] = {1, 2, 3, 4};
                             float out[4] = {};
                             const Collective call = Sum(in, out, 4);
                             if (RunsAgain(group, call)) return "known before it was made";
                             if (!group.Run(call).ok()) return "failed";
                             if (RunsAgain(group, Sum(in, out, 3))) return "another count is known";
                             if (!RunsAgain(group, call)) return "not known";
                             const bool counted = group.stats().collectives == 2;
                             return counted && out[3] == 4.0F * static_cast<float>(group.size())
                                        ? ""
                                        : "wrong";
                           }),
            "");
}

// What a call says beside its key is its own: it is neither asked for to know the call again, nor does it stay with it.
TEST_P(RepeatedCalls, TakeExtrasAndForgetThem) {
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "extras"},
                           [](ProcessGroup& group) -> std::string {
                             float in[4] = {1, 2, 3, 4};
                             float out[4] = {};
                             Collective first = Sum(in, out, 4);
                             first.timeout_ns = 50'000'000'000;
                             first.tag = 5;
                             if (!group.Run(first).ok()) return "failed";
                             if (!RunsAgain(group, Sum(in, out, 4))) return "not known";
                             absl::Status failure;
                             const CallExtras extras{
                                 .timeout_ns = 40'000'000'000, .tag = 6, .priority = 3};
                             for (int i = 0; i < 3; ++i) {
                               out[3] = 0;
                               if (!group.TryRunCached(KeyOf(first), in, out, extras, &failure))
                                 return "not known with extras: " + failure.ToString();
                               if (out[3] != 4.0F * static_cast<float>(group.size()))
                                 return "wrong";
                               WorkRef work;
                               if (!group.TryStartCached(KeyOf(first), in, out, extras, &work))
                                 return "";
                               const absl::Status ended = work->Wait(0);
                               if (!ended.ok()) return ended.ToString();
                               if (!RunsAgain(group, Sum(in, out, 4)))
                                 return "not known afterwards";
                             }
                             return group.stats().collectives == 11 ? "" : "not all were counted";
                           }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Ranks, RepeatedCalls, ::testing::Values(1, 2, 3, 5));

TEST(RepeatedCall, WithWrongBuffersIsLeftToTheCheck) {
  EXPECT_EQ(RunThreadRanks(1, {.name = "wrong"},
                           [](ProcessGroup& group) -> std::string {
                             float data[8] = {};
                             if (!group.Run(Sum(data, data + 4, 4)).ok()) return "failed";
                             if (RunsAgain(group, Sum(nullptr, data, 4))) return "in is NULL";
                             if (RunsAgain(group, Sum(data, nullptr, 4))) return "out is NULL";
                             if (RunsAgain(group, Sum(nullptr, nullptr, 4))) return "both are NULL";
                             if (RunsAgain(group, Sum(data, data + 1, 4))) return "they overlap";
                             if (RunsAgain(group, Sum(data + 1, data, 4))) return "they overlap";
                             if (group.stats().collectives != 1) return "one was done";
                             return RunsAgain(group, Sum(data, data, 4)) ? "" : "in place";
                           }),
            "");
}

TEST(RepeatedCall, OnAClosedGroupIsRefused) {
  EXPECT_EQ(RunThreadRanks(1, {.name = "closed"},
                           [](ProcessGroup& group) -> std::string {
                             float data[2] = {};
                             if (!group.Run(Sum(data, data, 2)).ok()) return "failed";
                             group.Close();
                             return RunsAgain(group, Sum(data, data, 2)) ? "it ran" : "";
                           }),
            "");
}

// Numbers that do not fit the fields of a key must not look like others that do.
TEST(CallKeys, KeepAllBitsOfEveryNumber) {
  const auto key = [](unsigned dtype, unsigned op, int root, size_t count) {
    return MakeCallKey(OpKind::kReduce, static_cast<weft_dtype_t>(dtype),
                       static_cast<weft_op_t>(op), root, count);
  };
  const CallKey usual = key(WEFT_FLOAT32, WEFT_SUM, 0, 2);
  for (unsigned bit = 0; bit < 32; ++bit) {
    EXPECT_NE(usual, key(WEFT_FLOAT32 ^ (1U << bit), WEFT_SUM, 0, 2)) << bit;
    EXPECT_NE(usual, key(WEFT_FLOAT32, WEFT_SUM ^ (1U << bit), 0, 2)) << bit;
    EXPECT_NE(usual, key(WEFT_FLOAT32, WEFT_SUM, static_cast<int>(1U << bit), 2)) << bit;
  }
  EXPECT_EQ(KeyOf(CollectiveOf(usual, nullptr, nullptr)), usual);
}

// Every place of two buffers to each other, byte by byte, against what the bytes say.
TEST(PlainBuffers, AllowWhatDoesNotOverlapButInPlace) {
  constexpr int kBytes = 12;
  char memory[3 * kBytes];
  for (const OpKind kind : kPlainKinds) {
    for (const int rank : {0, 1}) {
      const Collective call{.kind = kind, .dtype = WEFT_UINT8, .root = 1, .count = 3};
      PlainBuffers buffers;
      ASSERT_TRUE(MeasureBuffers(call, rank, 2, &buffers));
      const auto in_bytes = static_cast<int>(buffers.in_bytes);
      const auto out_bytes = static_cast<int>(buffers.out_bytes);
      for (int out = 0; out < 2 * kBytes; ++out) {
        const int in = kBytes;
        bool shared = false;
        for (int byte = 0; byte < in_bytes; ++byte)
          shared = shared || (in + byte >= out && in + byte < out + out_bytes);
        const bool own =
            in + static_cast<int>(buffers.in_own) == out + static_cast<int>(buffers.out_own);
        EXPECT_EQ(buffers.Allow(memory + in, memory + out), !shared || own)
            << OpKindName(kind) << " rank " << rank << " out " << out;
      }
      EXPECT_EQ(buffers.Allow(nullptr, memory), in_bytes == 0);
      EXPECT_EQ(buffers.Allow(memory, nullptr), out_bytes == 0);
    }
  }
}

}  // namespace
}  // namespace weft::test::repeated_call_test

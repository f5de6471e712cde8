// Calls that are no collectives but have ranks tell each other something by one: what went wrong is said of the call that the
// user has made, and never of its parts.
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "comm/group/from_ranks.h"
#include "comm/node/make_group.h"
#include "message_case.h"
#include "rank_threads.h"

namespace weft::test::whole_calls_test {
namespace {

struct WholeCall {
  const char* name;
  std::function<absl::Status(ProcessGroup&)> call;
  size_t part_bytes;  // that each rank contributes to its first part
};

std::vector<WholeCall> WholeCalls() {
  return {
      {"split", [](ProcessGroup& group) { return group.Split(0, 0, {.name = "part"}).status(); },
       8},
      {"group_create_from_ranks",
       [](ProcessGroup& group) {
         return CreateFromRanks(group, {0, 1}, {.name = "listed"}).status();
       },
       8},
      {"mem_alloc_shared", [](ProcessGroup& group) { return group.AllocateShared(4096).status(); },
       24},
  };
}

class AWholeCall : public testing::TestWithParam<WholeCall> {};

absl::Status SumOfOne(ProcessGroup& group) {
  float in = 1, out = 0;
  Collective sum{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = 1};
  sum.in = &in;
  sum.out = &out;
  return group.Run(sum);
}

TEST_P(AWholeCall, IsNamedInAMismatch) {
  EXPECT_EQ(RunThreadRanks(3, {.name = "own", .timeout_ns = 20'000'000'000},
                           [](ProcessGroup& group) -> std::string {
                             const absl::Status status =
                                 group.rank() == 1 ? GetParam().call(group) : SumOfOne(group);
                             if (FieldsOf(status).rank != 1) return "blames: " + Text(status);
                             const bool own = Text(status).find("uint") != std::string::npos;
                             if (own) return "names a part: " + Text(status);
                             return Expect(status, WEFT_MISMATCH,
                                           {std::string("rank 1 called ") + GetParam().name + ", ",
                                            "ranks 0, 2 called all_reduce (sum) of 1 float32"});
                           }),
            "");
}

// What looks like the part is a call of the user's nevertheless.
TEST_P(AWholeCall, IsToldFromACallLikeItsPart) {
  const size_t count = GetParam().part_bytes;
  EXPECT_EQ(RunThreadRanks(2, {.name = "own", .timeout_ns = 20'000'000'000},
                           [&](ProcessGroup& group) -> std::string {
                             absl::Status status;
                             if (group.rank() == 0) {
                               std::vector<char> in(count), out(2 * count);
                               Collective gather{.kind = OpKind::kAllGather, .count = count};
                               gather.in = in.data();
                               gather.out = out.data();
                               status = group.Run(gather);
                             } else {
                               status = GetParam().call(group);
                             }
                             return Expect(status, WEFT_MISMATCH,
                                           {std::string("rank 1 called ") + GetParam().name,
                                            "rank 0 called all_gather of "});
                           }),
            "");
}

TEST_P(AWholeCall, IsNamedWhenARankDoesNotCome) {
  std::atomic<int> ended{0};
  EXPECT_EQ(RunThreadRanks(
                3, {.name = "dp", .timeout_ns = 300'000'000},
                [&](ProcessGroup& group) -> std::string {
                  if (const absl::Status met = group.Run({.kind = OpKind::kBarrier}); !met.ok())
                    return Text(met);
                  if (group.rank() == 2) {
                    while (ended.load() < 2)
                      std::this_thread::yield();
                    return "";
                  }
                  const absl::Status status = GetParam().call(group);
                  ++ended;
                  if (FieldsOf(status).operation != GetParam().name) {
                    return "as field: " + FieldsOf(status).operation;
                  }
                  return Expect(status, WEFT_TIMEOUT,
                                {std::string(GetParam().name) + " #2 on group dp: rank 2 ",
                                 "last call barrier #1", "did not arrive within"});
                }),
            "");
}

// Rank 1 is in the call, which the other one never comes to.
TEST_P(AWholeCall, IsTheLastCallOfARankThatIsInIt) {
  EXPECT_EQ(RunThreadRanks(2, {.name = "dp", .timeout_ns = 20'000'000'000},
                           [&](ProcessGroup& group) -> std::string {
                             if (group.rank() == 1) {
                               const absl::Status status = GetParam().call(group);
                               return status.ok() ? "without rank 0" : "";
                             }
                             char data[8] = {};
                             Message recv = RecvOf(data, sizeof(data), 1, 5);
                             recv.timeout_ns = 300'000'000;
                             return Expect(group.Run(recv), WEFT_TIMEOUT,
                                           {std::string("last call ") + GetParam().name + " #1"});
                           }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Calls, AWholeCall, testing::ValuesIn(WholeCalls()),
                         [](const auto& call) { return std::string(call.param.name); });

// Their first parts are as large as each other.
TEST(WholeCalls, AreToldFromEachOther) {
  EXPECT_EQ(RunThreadRanks(3, {.name = "own", .timeout_ns = 20'000'000'000},
                           [](ProcessGroup& group) -> std::string {
                             const WholeCall call = WholeCalls()[group.rank() == 2 ? 1 : 0];
                             return Expect(call.call(group), WEFT_MISMATCH,
                                           {"rank 2 called group_create_from_ranks",
                                            "ranks 0, 1 called split"});
                           }),
            "");
}

}  // namespace
}  // namespace weft::test::whole_calls_test

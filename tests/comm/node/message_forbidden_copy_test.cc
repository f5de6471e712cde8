// WEFT_SINGLE_COPY=0: private messages are streamed, however cheap it would be to read them.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "comm/select/load_model.h"
#include "comm/select/tuning.h"
#include "message_case.h"
#include "rank_processes.h"
#include "rank_threads.h"
#include "single_copy_calls.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

const bool kCheap = setenv("WEFT_SINGLE_COPY", "0", 1) == 0 && MakeSingleCopyCheap();

std::string Exchange(ProcessGroup& group) {
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  for (const size_t bytes : {size_t{WEFT_EAGER_BYTES + 1}, size_t{131073}, size_t{3000001}}) {
    MessageBuffer in(bytes, false), out(bytes, false);
    in.Fill(Mix(bytes, static_cast<uint64_t>(group.rank())));
    const absl::Status status =
        group.RunPair(SendOf(in.data(), bytes, next), RecvOf(out.data(), bytes, previous));
    if (!status.ok()) return Text(status);
    const std::string problem = out.Compare(Mix(bytes, static_cast<uint64_t>(previous)));
    if (!problem.empty()) return problem;
  }
  return SingleCopyCalls::Get().calls == 0 ? "" : "a rank was read";
}

TEST(ForbiddenSingleCopy, MessagesAreStreamed) {
  ASSERT_TRUE(kCheap);
  ASSERT_LT(Choose(ProcessModel().model, 2).single_copy_message_min_bytes, kNever);
  for (const int size : kThreadRanks)
    EXPECT_EQ(RunThreadRanks(size, {.name = "f", .timeout_ns = 60'000'000'000}, Exchange), "");
}

TEST(ForbiddenSingleCopy, MessagesOfProcessesAreStreamed) {
  ASSERT_TRUE(kCheap);
  for (const int size : {2, 4})
    RunProcessRanks(size, Exchange);
}

// Many streams at once, whatever the number of ranks.
TEST(ForbiddenSingleCopy, RandomTrafficArrives) {
  ASSERT_TRUE(kCheap);
  const uint64_t seed = TestSeed(65);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  const auto traffic = [seed](ProcessGroup& group) {
    return RunTraffic(group, {.seed = seed, .messages = 100 * group.size()});
  };
  for (const int size : {2, 3, 8}) {
    EXPECT_EQ(RunThreadRanks(size, {.name = "f", .timeout_ns = 60'000'000'000}, traffic), "");
  }
  EXPECT_EQ(SingleCopyCalls::Get().calls, 0);
  for (const int size : {2, 8})
    RunProcessRanks(size, traffic);
}

}  // namespace
}  // namespace weft::test

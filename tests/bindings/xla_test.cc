// weft's operations as custom calls: right frames give what the functions of C give, and failures the codes of XLA.
#include <atomic>
#include <chrono>
#include <complex>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bindings/local_threads.h"
#include "tests/bindings/xla_frames.h"

namespace weft::test::xla_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using xla::ElementType;

// absl's numbers.
constexpr int kCancelled = 1;
constexpr int kInvalidArgument = 3;
constexpr int kDeadlineExceeded = 4;
constexpr int kFailedPrecondition = 9;
constexpr int kAborted = 10;

int64_t NumberOf(weft_group_t group) {
  int64_t number = 0;
  EXPECT_EQ(weft_xla_group_number(group, &number), WEFT_SUCCESS) << weft_last_error();
  return number;
}

// One call on int32 arrays; fails the test unless it ends well.
std::vector<int32_t> Call(XlaHandler* handler, weft_group_t group, const std::vector<int32_t>& in,
                          size_t out_count,
                          const std::vector<std::pair<const char*, int64_t>>& numbers) {
  std::vector<int32_t> out(out_count, -1);
  XlaFrame frame;
  frame.Operand(ElementType::kS32, in.data(), {static_cast<int64_t>(in.size())});
  frame.Result(ElementType::kS32, out.data(), {static_cast<int64_t>(out_count)});
  frame.Attribute("group", NumberOf(group));
  for (const auto& [name, value] : numbers)
    frame.Attribute(name, value);
  const XlaAnswer answer = frame.Run(handler);
  EXPECT_TRUE(answer.ok()) << answer.message;
  return out;
}

class XlaCalls : public testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }

  // f(0) + ... + f(size - 1).
  template <typename Function>
  int32_t SumOverRanks(const Function& f) const {
    int32_t sum = 0;
    for (int rank = 0; rank < size(); ++rank)
      sum += f(rank);
    return sum;
  }
};

TEST_P(XlaCalls, Reduce) {
  OnLocalRanks(size(), [&](int rank, weft_group_t group) {
    const auto n = static_cast<size_t>(size());
    const int32_t sum = SumOverRanks([](int r) { return r + 1; });
    const int root = size() - 1;
    EXPECT_THAT(Call(weft_xla_all_reduce, group, {rank + 1, 5}, 2, {{"op", WEFT_MAX}}),
                ElementsAre(size(), 5));
    EXPECT_THAT(Call(weft_xla_reduce, group, {rank + 1}, 1, {{"op", WEFT_SUM}, {"root", root}}),
                ElementsAre(rank == root ? sum : 0));
    std::vector<int32_t> blocks(2 * n);
    for (size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = static_cast<int32_t>(i) * (rank + 1);
    EXPECT_THAT(Call(weft_xla_reduce_scatter, group, blocks, 2, {{"op", WEFT_SUM}}),
                ElementsAre(2 * rank * sum, (2 * rank + 1) * sum));
  });
}

TEST_P(XlaCalls, Move) {
  OnLocalRanks(size(), [&](int rank, weft_group_t group) {
    const auto n = static_cast<size_t>(size());
    const int root = size() / 2;
    std::vector<int32_t> ranks;
    std::vector<int32_t> to_each;
    std::vector<int32_t> from_each;
    for (int r = 0; r < size(); ++r) {
      ranks.push_back(r);
      to_each.push_back(10 * rank + r);
      from_each.push_back(10 * r + rank);
    }
    EXPECT_THAT(Call(weft_xla_broadcast, group, {rank, 7}, 2, {{"root", root}}),
                ElementsAre(root, 7));
    EXPECT_EQ(Call(weft_xla_all_gather, group, {rank}, n, {}), ranks);
    EXPECT_EQ(Call(weft_xla_gather, group, {rank}, n, {{"root", root}}),
              rank == root ? ranks : std::vector<int32_t>(n, 0));
    EXPECT_THAT(Call(weft_xla_scatter, group, to_each, 1, {{"root", root}}),
                ElementsAre(10 * root + rank));
    EXPECT_EQ(Call(weft_xla_all_to_all, group, to_each, n, {}), from_each);
  });
}

TEST_P(XlaCalls, Messages) {
  OnLocalRanks(size(), [&](int rank, weft_group_t group) {
    const int right = (rank + 1) % size();
    const int left = (rank + size() - 1) % size();
    const std::vector<std::pair<const char*, int64_t>> ring = {
        {"destination", right}, {"source", left}, {"tag", 3}};
    EXPECT_THAT(Call(weft_xla_sendrecv, group, {rank, 1}, 2, ring), ElementsAre(left, 1));
    // From rank 0 to the last; others get zeros.
    const bool first = rank == 0;
    const bool last = rank == size() - 1;
    EXPECT_THAT(Call(weft_xla_sendrecv, group, {rank + 5}, 1,
                     {{"destination", first ? size() - 1 : WEFT_XLA_NOBODY},
                      {"source", last ? 0 : WEFT_XLA_NOBODY},
                      {"tag", 0}}),
                ElementsAre(last ? 5 : 0));
    if (size() == 1) return;
    int32_t value = rank + 40;
    XlaFrame frame;
    frame.Attribute("group", NumberOf(group)).Attribute("tag", 9);
    if (first) frame.Operand(ElementType::kS32, &value, {}).Attribute("destination", 1);
    if (rank == 1) {
      frame.Result(ElementType::kS32, &value, {}).Attribute("source", WEFT_ANY_SOURCE);
    }
    if (rank < 2) {
      EXPECT_TRUE(frame.Run(first ? weft_xla_send : weft_xla_recv).ok());
    }
    if (rank == 1) {
      EXPECT_EQ(value, 40);
    }
  });
}

TEST_P(XlaCalls, HandTokensThrough) {
  OnLocalRanks(size(), [&](int, weft_group_t group) {
    const float in = 2;
    float out = 0;
    const float token = 7;
    float token_out = 0;
    XlaFrame frame;
    frame.Operand(ElementType::kF32, &in, {}).Operand(ElementType::kF32, &token, {});
    frame.Result(ElementType::kF32, &out, {}).Result(ElementType::kF32, &token_out, {});
    frame.Attribute("group", NumberOf(group)).Attribute("op", WEFT_PROD);
    EXPECT_TRUE(frame.Run(weft_xla_all_reduce).ok());
    EXPECT_EQ(out, static_cast<float>(1 << size()));
    EXPECT_EQ(token_out, 7);

    XlaFrame barrier;
    barrier.Operand(ElementType::kToken, nullptr, {}).Result(ElementType::kToken, nullptr, {});
    barrier.Attribute("group", NumberOf(group)).Attribute("timeout_ns", 50'000'000'000);
    EXPECT_TRUE(barrier.Run(weft_xla_barrier).ok());
  });
}

TEST_P(XlaCalls, TakeTypesThatWeftHasNot) {
  OnLocalRanks(size(), [&](int rank, weft_group_t group) {
    const auto n = static_cast<size_t>(size());
    const std::complex<double> mine(rank, 1);
    std::complex<double> sum;
    XlaFrame reduce;
    reduce.Operand(ElementType::kC128, &mine, {}).Result(ElementType::kC128, &sum, {});
    reduce.Attribute("group", NumberOf(group)).Attribute("op", WEFT_SUM);
    EXPECT_TRUE(reduce.Run(weft_xla_all_reduce).ok());
    EXPECT_EQ(sum, std::complex<double>(SumOverRanks([](int r) { return r; }), size()));

    const auto small = static_cast<int16_t>(-1000 * rank);
    std::vector<int16_t> all(n);
    XlaFrame gather;
    gather.Operand(ElementType::kS16, &small, {});
    gather.Result(ElementType::kS16, all.data(), {size()});
    gather.Attribute("group", NumberOf(group));
    EXPECT_TRUE(gather.Run(weft_xla_all_gather).ok());
    for (int r = 0; r < size(); ++r)
      EXPECT_EQ(all[static_cast<size_t>(r)], -1000 * r);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, XlaCalls, testing::Values(1, 2, 3, 5));

TEST(XlaFrames, AreAskedForTheVersionAlone) {
  struct {
    xla::Metadata metadata = {.struct_size = sizeof(metadata)};
    int64_t behind = 77;  // a field of a later version
  } asked;

  xla::MetadataExtension extension = {
      .base = {.struct_size = sizeof(extension), .type = xla::kMetadataExtension},
      .metadata = &asked.metadata};
  xla::Extension unknown = {.struct_size = sizeof(unknown), .type = 129, .next = &extension.base};
  for (const NamedXlaHandler& handler : kXlaHandlers) {
    asked.metadata.version = {};
    XLA_FFI_CallFrame call = {.struct_size = sizeof(call), .extensions = &unknown};
    EXPECT_EQ(handler.handler(&call), nullptr);
    EXPECT_EQ(asked.metadata.version.major, 0);
    EXPECT_EQ(asked.metadata.version.minor, 1);
    EXPECT_EQ(asked.behind, 77);
  }
}

TEST(XlaFrames, OfOtherStagesDoNothing) {
  for (const NamedXlaHandler& handler : kXlaHandlers) {
    XLA_FFI_CallFrame call = {.struct_size = sizeof(call)};
    for (int stage = 0; stage < xla::kExecuteStage; ++stage) {
      call.stage = stage;
      EXPECT_EQ(handler.handler(&call), nullptr);
    }
    EXPECT_EQ(handler.handler(nullptr), nullptr);
    // A failure that nobody can be told of is logged.
    call.stage = xla::kExecuteStage;
    EXPECT_EQ(handler.handler(&call), nullptr);
  }
}

TEST(XlaGroups, HaveNumbersThatAreNeverUsedAgain) {
  weft_group_t groups[2] = {};
  ASSERT_EQ(weft_group_create_local(2, nullptr, groups), WEFT_SUCCESS);
  const int64_t first = NumberOf(groups[0]);
  EXPECT_EQ(NumberOf(groups[0]), first);
  EXPECT_EQ(NumberOf(groups[1]), first + 1);
  ASSERT_EQ(weft_group_destroy(groups[0]), WEFT_SUCCESS);
  ASSERT_EQ(weft_group_destroy(groups[1]), WEFT_SUCCESS);
  weft_group_t other = nullptr;
  ASSERT_EQ(weft_group_create_local(1, nullptr, &other), WEFT_SUCCESS);
  EXPECT_EQ(NumberOf(other), first + 2);
  XlaFrame frame;
  const XlaAnswer answer = frame.Attribute("group", first).Run(weft_xla_barrier);
  EXPECT_EQ(answer.code, kFailedPrecondition);
  EXPECT_THAT(answer.message, HasSubstr("was destroyed; trace the program anew"));
  ASSERT_EQ(weft_group_destroy(other), WEFT_SUCCESS);
}

// Two ranks of which the second never comes.
class XlaFailures : public testing::Test {
 protected:
  XlaFailures() {
    const weft_group_config_t config = ConfigNamed("pair");
    EXPECT_EQ(weft_group_create_local(2, &config, groups_), WEFT_SUCCESS) << weft_last_error();
  }

  ~XlaFailures() override {
    for (weft_group_t group : groups_)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS) << weft_last_error();
  }

  XlaAnswer Barrier(int64_t timeout_ns) {
    XlaFrame frame;
    frame.Attribute("group", NumberOf(groups_[0])).Attribute("timeout_ns", timeout_ns);
    return frame.Run(weft_xla_barrier);
  }

  void AwaitCall() {
    weft_group_stats_t stats = {};
    stats.struct_size = sizeof(stats);
    while (stats.pending == 0)
      ASSERT_EQ(weft_group_stats(groups_[0], &stats), WEFT_SUCCESS);
  }

  weft_group_t groups_[2] = {};
};

TEST_F(XlaFailures, Deadline) {
  const XlaAnswer answer = Barrier(20'000'000);
  EXPECT_EQ(answer.code, kDeadlineExceeded);
  EXPECT_THAT(answer.message, HasSubstr("rank 1"));
  EXPECT_EQ(Barrier(0).code, kAborted);
}

TEST_F(XlaFailures, MismatchSaysWhatBothCalled) {
  std::thread other([&] {
    float x = 1;
    EXPECT_EQ(weft_all_reduce(&x, &x, 1, WEFT_FLOAT32, WEFT_SUM, groups_[1], nullptr, nullptr),
              WEFT_MISMATCH);
  });
  const XlaAnswer answer = Barrier(0);
  other.join();
  EXPECT_EQ(answer.code, kFailedPrecondition);
  EXPECT_THAT(answer.message, HasSubstr("all_reduce"));
}

TEST_F(XlaFailures, DestroyingTheGroupEndsACallUnderWay) {
  XlaAnswer answer;
  XlaFrame frame;
  frame.Attribute("group", NumberOf(groups_[0]));
  std::thread waits([&] { answer = frame.Run(weft_xla_barrier); });
  AwaitCall();
  EXPECT_EQ(weft_group_destroy(groups_[0]), WEFT_SUCCESS) << weft_last_error();
  groups_[0] = nullptr;
  waits.join();
  EXPECT_EQ(answer.code, kAborted) << answer.message;
}

std::atomic<int> told{0};

TEST_F(XlaFailures, AnInterruptIsTold) {
  told = 0;
  weft_xla_set_interrupted([] { ++told; });
  ASSERT_EQ(weft_set_interrupt([](void*) { return 1; }, nullptr, 1'000'000), WEFT_SUCCESS);
  const XlaAnswer answer = Barrier(0);
  ASSERT_EQ(weft_set_interrupt(nullptr, nullptr, 0), WEFT_SUCCESS);
  weft_xla_set_interrupted(nullptr);
  EXPECT_EQ(answer.code, kCancelled) << answer.message;
  EXPECT_EQ(told, 1);
}

TEST_F(XlaFailures, ARefusedCallLeavesTheGroupAsItWas) {
  XlaFrame frame;
  EXPECT_EQ(frame.Attribute("group", NumberOf(groups_[0])).Run(weft_xla_all_reduce).code,
            kInvalidArgument);
  std::thread other([&] { EXPECT_EQ(weft_barrier(groups_[1], nullptr, nullptr), WEFT_SUCCESS); });
  EXPECT_TRUE(Barrier(0).ok());
  other.join();
}

}  // namespace
}  // namespace weft::test::xla_test

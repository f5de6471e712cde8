// The reductions behind the numbers of op.h: what they hold, and that destroying one disturbs nobody
// who has it.
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/op.h"

#include "base/status.h"
#include "bindings/c/op.h"
#include "tests/bindings/user_op.h"

namespace weft {
namespace {

void CountCalls(const void*, const void*, void*, size_t, weft_dtype_t, void* user) {
  ++*static_cast<int*>(user);
}

TEST(CustomOpOf, IsWhatWasMade) {
  const uint16_t half_of_f16 = 0x3800;
  weft_op_t op;
  ASSERT_EQ(weft_op_create_premul_sum(&half_of_f16, WEFT_FLOAT16, &op), WEFT_SUCCESS);
  const auto scaled = CustomOpOf(op);
  ASSERT_TRUE(scaled.ok()) << scaled.status();
  EXPECT_EQ((*scaled)->kind, kOpPremulSum);
  EXPECT_EQ((*scaled)->dtype, WEFT_FLOAT16);
  EXPECT_EQ((*scaled)->factor, 0x3f000000u);
  EXPECT_EQ(weft_op_destroy(op), WEFT_SUCCESS);

  int calls = 0;
  char name[] = "mine";
  ASSERT_EQ(CreateUserOp(CountCalls, &calls, name, &op), WEFT_SUCCESS);
  name[0] = 'y';
  const auto user = CustomOpOf(op);
  ASSERT_TRUE(user.ok()) << user.status();
  EXPECT_EQ((*user)->kind, kOpUser);
  EXPECT_EQ((*user)->function, CountCalls);
  EXPECT_EQ((*user)->user, &calls);
  EXPECT_EQ((*user)->name, "mine");
  EXPECT_EQ((*user)->element_count, 1u);
  EXPECT_EQ(weft_op_destroy(op), WEFT_SUCCESS);
  ASSERT_EQ(CreateUserOp(CountCalls, &calls, "mine", &op, 7), WEFT_SUCCESS);
  EXPECT_EQ(CustomOpOf(op).value()->element_count, 7u);
  EXPECT_EQ(weft_op_destroy(op), WEFT_SUCCESS);
}

TEST(CustomOpOf, RefusesWhatIsNoReductionOfOpH) {
  for (const int number : {-1, 0, 104, 1022, 1023, 0x7fffffff}) {
    EXPECT_EQ(ResultOf(CustomOpOf(static_cast<weft_op_t>(number)).status()), WEFT_INVALID_ARGUMENT)
        << number;
  }
}

TEST(CustomOpOf, OutlivesItsNumber) {
  int calls = 0;
  weft_op_t op;
  ASSERT_EQ(CreateUserOp(CountCalls, &calls, "mine", &op), WEFT_SUCCESS);
  const std::shared_ptr<const CustomOp> held = CustomOpOf(op).value();
  ASSERT_EQ(weft_op_destroy(op), WEFT_SUCCESS);
  EXPECT_EQ(ResultOf(CustomOpOf(op).status()), WEFT_INVALID_ARGUMENT);
  const int value = 0;
  const void* const sources[] = {&value, &value};
  int result = 0;
  void* const destination = &result;
  ReduceByUser(*held, WEFT_INT32, {sources, 2, &destination, 1, 1, 0});
  EXPECT_EQ(calls, 1);
}

// Some threads look up and use what others make and destroy.
TEST(CustomOpOf, IsSafeWhileOthersDestroy) {
  constexpr int kRounds = 2000;
  std::atomic<int> shared{WEFT_OP_CUSTOM_FIRST};
  std::atomic<int> found{0};
  std::atomic<bool> ended{false};
  std::vector<std::thread> lookers;
  lookers.reserve(2);
  for (int i = 0; i < 2; ++i) {
    lookers.emplace_back([&] {
      do {
        const auto op = CustomOpOf(static_cast<weft_op_t>(shared.load()));
        if (!op.ok()) continue;
        EXPECT_EQ((*op)->name, "a name long enough to be allocated");
        ++found;
      } while (!ended.load());
    });
  }
  std::vector<std::thread> makers;
  makers.reserve(2);
  for (int i = 0; i < 2; ++i) {
    makers.emplace_back([&] {
      for (int round = 0; round < kRounds || found.load() == 0; ++round) {
        weft_op_t op;
        ASSERT_EQ(CreateUserOp(CountCalls, nullptr, "a name long enough to be allocated", &op),
                  WEFT_SUCCESS);
        shared = op;
        if (found.load() == 0) std::this_thread::yield();
        ASSERT_EQ(weft_op_destroy(op), WEFT_SUCCESS);
      }
    });
  }
  for (std::thread& maker : makers)
    maker.join();
  ended = true;
  for (std::thread& looker : lookers)
    looker.join();
  EXPECT_GT(found.load(), 0);
}

}  // namespace
}  // namespace weft

// What weft_call_t says about numbers: numerics is the same on all ranks or the call is refused; a wire type is the
// call's own or refused before anything is sent.
#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "local_threads.h"

namespace weft::test::call_options_test {
namespace {

constexpr size_t kLine = 3;
constexpr size_t kSlot = 500;
constexpr size_t kLarge = 100'003;

struct Buffers {
  Buffers(int rank, int size, size_t count)
      : in(count * static_cast<size_t>(size), rank + 1), out(in.size(), -1) {}

  std::vector<int32_t> in;
  std::vector<int32_t> out;
};

// One form of call; `count` elements per rank and block.
struct Form {
  const char* name;
  std::function<weft_result_t(Buffers&, size_t count, int size, weft_group_t, const weft_call_t*,
                              weft_work_t*)>
      call;
};

std::vector<Form> Forms() {
  return {
      {"all_reduce",
       [](Buffers& b, size_t count, int, weft_group_t group, const weft_call_t* call,
          weft_work_t* work) {
         return weft_all_reduce(b.in.data(), b.out.data(), count, WEFT_INT32, WEFT_SUM, group, call,
                                work);
       }},
      {"reduce_scatter_v",
       [](Buffers& b, size_t count, int size, weft_group_t group, const weft_call_t* call,
          weft_work_t* work) {
         const std::vector<size_t> counts(static_cast<size_t>(size), count);
         return weft_reduce_scatter_v(b.in.data(), b.out.data(), counts.data(), nullptr, WEFT_INT32,
                                      WEFT_SUM, group, call, work);
       }},
      {"all_reduce_iov",
       [](Buffers& b, size_t count, int, weft_group_t group, const weft_call_t* call,
          weft_work_t* work) {
         const weft_iov_t part = {b.in.data(), b.out.data(), count};
         return weft_all_reduce_iov(&part, 1, WEFT_INT32, WEFT_SUM, group, call, work);
       }},
  };
}

weft_call_t Options() {
  weft_call_t call = {};
  call.struct_size = sizeof(call);
  return call;
}

weft_call_t WithWire(weft_dtype_t dtype) {
  weft_call_t call = Options();
  call.fields = WEFT_CALL_WIRE_DTYPE;
  call.wire_dtype = dtype;
  return call;
}

weft_call_t WithNumerics(weft_numerics_t numerics) {
  weft_call_t call = Options();
  call.numerics = numerics;
  return call;
}

// Blocking, or started and waited for.
weft_result_t Do(const Form& form, Buffers& buffers, size_t count, int size, weft_group_t group,
                 const weft_call_t* call, bool started) {
  if (!started) return form.call(buffers, count, size, group, call, nullptr);
  weft_work_t work = nullptr;
  const weft_result_t result = form.call(buffers, count, size, group, call, &work);
  if (result != WEFT_SUCCESS) return result;
  const weft_result_t waited = weft_work_wait(work, 0);
  EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  return waited;
}

// body(form, count, started, rank, size, group), on groups of their own.
template <typename Body>
void OverForms(const Body& body) {
  for (const Form& form : Forms()) {
    for (const int size : {2, 3}) {
      for (const size_t count : {kLine, kSlot, kLarge}) {
        for (const bool started : {false, true}) {
          SCOPED_TRACE(std::string(form.name) + ", " + std::to_string(size) + " ranks, " +
                       std::to_string(count) + (started ? ", started" : ""));
          const weft_group_config_t config = ConfigNamed("options");
          std::vector<weft_group_t> groups(static_cast<size_t>(size));
          ASSERT_EQ(weft_group_create_local(size, &config, groups.data()), WEFT_SUCCESS)
              << weft_last_error();
          OnThreads(size, [&](int rank) {
            body(form, count, started, rank, size, groups[static_cast<size_t>(rank)]);
          });
          for (weft_group_t group : groups)
            EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS) << weft_last_error();
        }
      }
    }
  }
}

TEST(CallOptions, NumericsThatDifferAreAMismatchThatNamesBoth) {
  OverForms(
      [](const Form& form, size_t count, bool started, int rank, int size, weft_group_t group) {
        Buffers buffers(rank, size, count);
        const weft_call_t call =
            WithNumerics(rank == size - 1 ? WEFT_NUMERICS_FAST : WEFT_NUMERICS_CANONICAL);
        EXPECT_EQ(Do(form, buffers, count, size, group, &call, started), WEFT_MISMATCH);
        const std::string sentence = weft_last_error();
        for (const char* const words : {"with numerics fast", "with numerics canonical"})
          EXPECT_NE(sentence.find(words), std::string::npos) << sentence;
        EXPECT_EQ(buffers.out, std::vector<int32_t>(buffers.out.size(), -1));
      });
}

// A call without options before and after: the one with them is not taken for it.
TEST(CallOptions, FastNumericsOnAllRanksGiveTheSum) {
  OverForms(
      [](const Form& form, size_t count, bool started, int rank, int size, weft_group_t group) {
        Buffers buffers(rank, size, count);
        const weft_call_t fast = WithNumerics(WEFT_NUMERICS_FAST);
        for (const weft_call_t* const call :
             std::vector<const weft_call_t*>{nullptr, &fast, nullptr, &fast}) {
          std::fill(buffers.out.begin(), buffers.out.end(), -1);
          EXPECT_EQ(Do(form, buffers, count, size, group, call, started), WEFT_SUCCESS)
              << weft_last_error();
          EXPECT_EQ(buffers.out[0], size * (size + 1) / 2);
          EXPECT_EQ(buffers.out[count - 1], size * (size + 1) / 2);
        }
      });
}

TEST(CallOptions, AnotherWireTypeIsRefusedAndTheGroupGoesOn) {
  OverForms(
      [](const Form& form, size_t count, bool started, int rank, int size, weft_group_t group) {
        Buffers buffers(rank, size, count);
        const weft_call_t other = WithWire(WEFT_FLOAT16), own = WithWire(WEFT_INT32);
        EXPECT_EQ(Do(form, buffers, count, size, group, &other, started), WEFT_UNSUPPORTED);
        const std::string sentence = weft_last_error();
        EXPECT_NE(sentence.find("wire_dtype float16 with elements of int32"), std::string::npos)
            << sentence;
        EXPECT_EQ(Do(form, buffers, count, size, group, &own, started), WEFT_SUCCESS)
            << weft_last_error();
        EXPECT_EQ(buffers.out[0], size * (size + 1) / 2);
      });
}

// A call that the group knows keeps its own deadline, and those without one have the group's.
TEST(CallOptions, ADeadlineIsOfOneCall) {
  const weft_group_config_t config = ConfigNamed("deadline");
  weft_group_t groups[2] = {};
  ASSERT_EQ(weft_group_create_local(2, &config, groups), WEFT_SUCCESS) << weft_last_error();
  weft_call_t brief = Options();
  brief.timeout_ns = 30'000'000;
  OnThreads(2, [&](int rank) {
    int64_t value = rank;
    const auto call = [&](const weft_call_t* options) {
      return weft_all_reduce(&value, &value, 1, WEFT_INT64, WEFT_MAX, groups[rank], options,
                             nullptr);
    };
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(call(nullptr), WEFT_SUCCESS) << weft_last_error();
    if (rank == 1) return;
    EXPECT_EQ(call(&brief), WEFT_TIMEOUT);
    EXPECT_NE(std::string(weft_last_error()).find("#6"), std::string::npos) << weft_last_error();
  });
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

// With and without, in turns: the progress thread does what nobody waits for.
TEST(CallOptions, BackgroundWorksEndByThemselves) {
  const weft_group_config_t config = ConfigNamed("background");
  weft_group_t groups[2] = {};
  ASSERT_EQ(weft_group_create_local(2, &config, groups), WEFT_SUCCESS) << weft_last_error();
  weft_call_t background = Options();
  background.fields = WEFT_CALL_BACKGROUND;
  OnThreads(2, [&](int rank) {
    for (int i = 0; i < 20; ++i) {
      std::vector<int64_t> values(i % 4 == 3 ? 100'000 : 1, rank);
      weft_work_t work = nullptr;
      EXPECT_EQ(weft_all_reduce(values.data(), values.data(), values.size(), WEFT_INT64, WEFT_MAX,
                                groups[rank], i % 2 == 0 ? &background : nullptr, &work),
                WEFT_SUCCESS)
          << weft_last_error();
      while (weft_work_error(work) == WEFT_IN_PROGRESS)
        std::this_thread::yield();
      EXPECT_EQ(weft_work_error(work), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(values.back(), 1);
      EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
    }
  });
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

TEST(CallOptions, AWireTypeMeansNothingToABarrier) {
  const weft_group_config_t config = ConfigNamed("options");
  weft_group_t group = nullptr;
  ASSERT_EQ(weft_group_create_local(1, &config, &group), WEFT_SUCCESS) << weft_last_error();
  const weft_call_t call = WithWire(WEFT_FLOAT16);
  EXPECT_EQ(weft_barrier(group, &call, nullptr), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

TEST(CallOptions, MessagesTakeTheirOwnWireTypeAndAnyNumerics) {
  const weft_group_config_t config = ConfigNamed("options");
  weft_group_t groups[2] = {};
  ASSERT_EQ(weft_group_create_local(2, &config, groups), WEFT_SUCCESS) << weft_last_error();
  float data[2] = {1, 2}, got[2] = {};
  const weft_call_t other = WithWire(WEFT_BFLOAT16), own = WithWire(WEFT_FLOAT32);
  const weft_call_t fast = WithNumerics(WEFT_NUMERICS_FAST);
  EXPECT_EQ(weft_send(data, 2, WEFT_FLOAT32, 1, 1, groups[0], &other, nullptr), WEFT_UNSUPPORTED);
  EXPECT_EQ(weft_recv(got, 2, WEFT_FLOAT32, 0, 1, nullptr, groups[1], &other, nullptr),
            WEFT_UNSUPPORTED);
  EXPECT_EQ(weft_send(data, 2, WEFT_FLOAT32, 1, 1, groups[0], &own, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_recv(got, 2, WEFT_FLOAT32, 0, 1, nullptr, groups[1], &fast, nullptr), WEFT_SUCCESS)
      << weft_last_error();
  EXPECT_EQ(got[1], 2);
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test::call_options_test

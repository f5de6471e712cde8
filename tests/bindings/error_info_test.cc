// weft_last_error and weft_last_error_info: the sentence and the fields of a thread's last failure.
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "tests/bindings/last_error_info.h"
#include "tests/bindings/local_threads.h"

namespace {

using testing::HasSubstr;

// Each test in a thread of its own, which has had no failure before.
template <typename Body>
void InNewThread(const Body& body) {
  std::thread(body).join();
}

TEST(ErrorInfo, BeforeAnyFailureEverythingIsUnknown) {
  InNewThread([] {
    EXPECT_STREQ(weft_last_error(), "");
    const weft_error_info_t info = weft::test::LastErrorInfo();
    EXPECT_EQ(info.struct_size, sizeof(info));
    EXPECT_EQ(info.result, WEFT_SUCCESS);
    EXPECT_EQ(info.rank, -1);
    EXPECT_EQ(info.world_rank, -1);
    EXPECT_EQ(info.pid, -1);
    EXPECT_EQ(info.signal, -1);
    EXPECT_EQ(info.exit_code, -1);
    EXPECT_EQ(info.sequence, -1);
    EXPECT_STREQ(info.host, "");
    EXPECT_STREQ(info.group, "");
    EXPECT_STREQ(info.operation, "");
    EXPECT_STREQ(info.unit, "");
    EXPECT_STREQ(info.param, "");
    EXPECT_EQ(info.device, -1);
    EXPECT_EQ(info.device_code, -1);
  });
}

TEST(ErrorInfo, NamesTheOperationOfARefusedCall) {
  EXPECT_EQ(weft_mem_alloc(0, 0, nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft::test::LastErrorInfo().result, WEFT_INVALID_ARGUMENT);
  EXPECT_STREQ(weft::test::LastErrorInfo().operation, "mem_alloc");
  EXPECT_EQ(weft_barrier(nullptr, nullptr, nullptr), WEFT_INVALID_ARGUMENT);
  EXPECT_STREQ(weft::test::LastErrorInfo().operation, "barrier");
}

TEST(ErrorInfo, SuccessLeavesItAlone) {
  EXPECT_EQ(weft_mem_free(&errno), WEFT_INVALID_ARGUMENT);
  const std::string sentence = weft_last_error();
  EXPECT_THAT(sentence, HasSubstr("weft_mem_free"));
  EXPECT_EQ(weft_mem_free(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_last_error(), sentence);
  EXPECT_EQ(weft::test::LastErrorInfo().result, WEFT_INVALID_ARGUMENT);
}

TEST(ErrorInfo, IsOfTheCallingThread) {
  EXPECT_EQ(weft_log_set_level(static_cast<weft_log_level_t>(4)), WEFT_INVALID_ARGUMENT);
  const std::string mine = weft_last_error();
  InNewThread([] {
    EXPECT_STREQ(weft_last_error(), "");
    EXPECT_EQ(weft_option_at(SIZE_MAX, nullptr), WEFT_INVALID_ARGUMENT);
    EXPECT_THAT(weft_last_error(), HasSubstr("weft_option_at"));
  });
  EXPECT_EQ(weft_last_error(), mine);
  EXPECT_THAT(mine, HasSubstr("weft_log_set_level"));
}

// One rank of three disagrees: all learn which, in which operation of which group.
TEST(ErrorInfo, HasGroupRankAndSequenceOfAFailedOperation) {
  const weft_group_config_t config = weft::test::ConfigNamed("disputed");
  weft_group_t groups[3] = {};
  ASSERT_EQ(weft_group_create_local(3, &config, groups), WEFT_SUCCESS) << weft_last_error();
  weft::test::OnThreads(3, [&](int rank) {
    float x[8] = {};
    EXPECT_EQ(weft_barrier(groups[rank], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
    const size_t count = rank == 1 ? 4 : 8;
    EXPECT_EQ(weft_all_reduce(x, x, count, WEFT_FLOAT32, WEFT_SUM, groups[rank], nullptr, nullptr),
              WEFT_MISMATCH)
        << weft_last_error();
    EXPECT_THAT(weft_last_error(), HasSubstr("disputed"));
    const weft_error_info_t info = weft::test::LastErrorInfo();
    EXPECT_EQ(info.result, WEFT_MISMATCH);
    EXPECT_EQ(info.rank, 1);
    EXPECT_EQ(info.world_rank, 1);
    EXPECT_EQ(info.sequence, 2);
    EXPECT_STREQ(info.group, "disputed");
    EXPECT_STREQ(info.operation, "all_reduce");
    EXPECT_EQ(weft_group_destroy(groups[rank]), WEFT_SUCCESS);
  });
}

// By several threads at once, which have failures of their own.
TEST(ErrorInfo, OfAWorkIsAskedOnAnyThreadAndLeavesTheLastErrorAlone) {
  const weft_group_config_t config = weft::test::ConfigNamed("asked");
  weft_group_t groups[2] = {};
  ASSERT_EQ(weft_group_create_local(2, &config, groups), WEFT_SUCCESS) << weft_last_error();
  weft_work_t ended = nullptr;
  ASSERT_EQ(weft_barrier(groups[0], nullptr, &ended), WEFT_SUCCESS);
  ASSERT_EQ(weft_barrier(groups[1], nullptr, nullptr), WEFT_SUCCESS);
  ASSERT_EQ(weft_work_wait(ended, 0), WEFT_SUCCESS);
  weft_work_t failed = nullptr;
  ASSERT_EQ(weft_barrier(groups[0], nullptr, &failed), WEFT_SUCCESS);

  weft_error_info_t info = {};
  info.struct_size = sizeof(info);
  info.rank = 77;
  const char* message = "untouched";
  EXPECT_EQ(weft_work_error_info(failed, &info), WEFT_IN_PROGRESS);
  EXPECT_EQ(weft_work_error_message(failed, &message), WEFT_IN_PROGRESS);
  EXPECT_EQ(info.rank, 77);
  EXPECT_STREQ(message, "untouched");
  EXPECT_EQ(weft_work_error_info(ended, &info), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_error_message(ended, &message), WEFT_SUCCESS);
  EXPECT_EQ(info.result, WEFT_SUCCESS);
  EXPECT_EQ(info.rank, -1);
  EXPECT_STREQ(message, "");

  float x = 0;
  EXPECT_EQ(weft_all_reduce(&x, &x, 1, WEFT_FLOAT32, WEFT_SUM, groups[1], nullptr, nullptr),
            WEFT_MISMATCH);
  EXPECT_EQ(weft_work_wait(failed, 0), WEFT_MISMATCH);
  const std::string sentence = weft_last_error();
  EXPECT_THAT(sentence, HasSubstr("asked"));
  weft::test::OnThreads(4, [&](int) {
    EXPECT_EQ(weft_mem_alloc(0, 0, nullptr), WEFT_INVALID_ARGUMENT);
    const std::string mine = weft_last_error();
    weft_error_info_t of_work = {};
    of_work.struct_size = sizeof(of_work);
    const char* of_thread = nullptr;
    EXPECT_EQ(weft_work_error_info(failed, &of_work), WEFT_SUCCESS);
    EXPECT_EQ(of_work.result, WEFT_MISMATCH);
    EXPECT_STREQ(of_work.group, "asked");
    EXPECT_EQ(of_work.sequence, 2);
    EXPECT_EQ(weft_work_error_message(failed, &of_thread), WEFT_SUCCESS);
    EXPECT_EQ(of_thread, sentence);
    EXPECT_EQ(weft_last_error(), mine);
  });
  const char* again = nullptr;
  EXPECT_EQ(weft_work_error_message(failed, &message), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_error_message(failed, &again), WEFT_SUCCESS);
  EXPECT_EQ(message, again) << "until the handle is freed";
  for (weft_work_t work : {ended, failed})
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

// In a group that was split from another one a rank has two numbers.
TEST(ErrorInfo, HasTheWorldRankOfARankOfASplitGroup) {
  weft_group_t groups[4] = {};
  ASSERT_EQ(weft_group_create_local(4, nullptr, groups), WEFT_SUCCESS) << weft_last_error();
  weft::test::OnThreads(4, [&](int rank) {
    weft_group_t part = nullptr;
    const weft_group_config_t config = weft::test::ConfigNamed("part");
    ASSERT_EQ(weft_group_split(groups[rank], rank == 0 ? 0 : 1, rank, &config, &part), WEFT_SUCCESS)
        << weft_last_error();
    if (rank > 0) {
      float x[8] = {};
      const size_t count = rank == 2 ? 4 : 8;
      EXPECT_EQ(weft_all_reduce(x, x, count, WEFT_FLOAT32, WEFT_SUM, part, nullptr, nullptr),
                WEFT_MISMATCH);
      EXPECT_EQ(weft::test::LastErrorInfo().rank, 1);
      EXPECT_EQ(weft::test::LastErrorInfo().world_rank, 2);
      EXPECT_THAT(weft_last_error(), HasSubstr("rank 1 of group part ("));
    }
    EXPECT_EQ(weft_group_destroy(part), WEFT_SUCCESS);
    EXPECT_EQ(weft_group_destroy(groups[rank]), WEFT_SUCCESS);
  });
}

// A program built when the struct was shorter gets what fits and not a byte more.
TEST(ErrorInfo, AnOlderCallersShorterStructIsFilledToItsEnd) {
  EXPECT_EQ(weft_barrier(nullptr, nullptr, nullptr), WEFT_INVALID_ARGUMENT);
  const weft_error_info_t full = weft::test::LastErrorInfo();
  // The last is the struct that ends with world_rank.
  for (const size_t size : {offsetof(weft_error_info_t, pid), offsetof(weft_error_info_t, host),
                            offsetof(weft_error_info_t, group), size_t{208}}) {
    weft_error_info_t info;
    std::memset(&info, 0x5a, sizeof(info));
    info.struct_size = size;
    ASSERT_EQ(weft_last_error_info(&info), WEFT_SUCCESS) << size;
    EXPECT_EQ(info.struct_size, size);
    EXPECT_EQ(info.result, WEFT_INVALID_ARGUMENT);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&info);
    const auto* const expected = reinterpret_cast<const unsigned char*>(&full);
    for (size_t i = sizeof(size_t); i < sizeof(info); ++i)
      ASSERT_EQ(bytes[i], i < size ? expected[i] : 0x5a) << "byte " << i << " of " << size;
  }
}

TEST(ErrorInfo, ANewerCallersLongerStructHasZeroAtItsEnd) {
  EXPECT_EQ(weft_barrier(nullptr, nullptr, nullptr), WEFT_INVALID_ARGUMENT);

  struct Newer {
    weft_error_info_t info;
    uint64_t field;
  } newer = {};

  newer.info.struct_size = sizeof(newer);
  newer.field = 7;
  EXPECT_EQ(weft_last_error_info(&newer.info), WEFT_SUCCESS);
  EXPECT_STREQ(newer.info.operation, "barrier");
  EXPECT_EQ(newer.field, 0u);
}

}  // namespace

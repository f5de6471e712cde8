// Groups made from a unique id, as programs written for NCCL do it.
#include <cstring>

#include <gmock/gmock.h>

#include "tests/bindings/local_threads.h"

namespace weft::test::unique_id_test {
namespace {

using testing::HasSubstr;

TEST(UniqueId, MakesAGroupOfThoseWhoHaveIt) {
  weft_unique_id_t id;
  ASSERT_EQ(weft_unique_id_create(&id), WEFT_SUCCESS) << weft_last_error();
  OnThreads(2, [&](int rank) {
    weft_unique_id_t received;
    std::memcpy(&received, &id, sizeof(id));  // as if sent
    const weft_group_config_t config = ConfigNamed("from id");
    weft_group_t group = nullptr;
    ASSERT_EQ(weft_group_create_from_id(&received, 2, rank, &config, &group), WEFT_SUCCESS)
        << weft_last_error();
    ExpectSumsAndDestroy(group, 2, rank);
  });
}

TEST(UniqueId, UsedTwiceIsSaidAtOnce) {
  weft_unique_id_t id;
  ASSERT_EQ(weft_unique_id_create(&id), WEFT_SUCCESS) << weft_last_error();
  OnThreads(2, [&](int rank) {
    const weft_group_config_t config = {.struct_size = sizeof(config)};  // half an hour
    weft_group_t group = nullptr;
    ASSERT_EQ(weft_group_create_from_id(&id, 2, rank, &config, &group), WEFT_SUCCESS)
        << weft_last_error();
    weft_group_t again = nullptr;
    EXPECT_EQ(weft_group_create_from_id(&id, 2, rank, &config, &again), WEFT_INVALID_USAGE);
    EXPECT_THAT(weft_last_error(), HasSubstr("the unique id was used already: this process"));
    EXPECT_EQ(again, nullptr);
    ExpectSumsAndDestroy(group, 2, rank);
    EXPECT_EQ(weft_group_create_from_id(&id, 2, rank, &config, &again), WEFT_INVALID_USAGE);
  });
}

TEST(UniqueId, EveryOneIsAnother) {
  weft_unique_id_t a;
  weft_unique_id_t b;
  ASSERT_EQ(weft_unique_id_create(&a), WEFT_SUCCESS) << weft_last_error();
  ASSERT_EQ(weft_unique_id_create(&b), WEFT_SUCCESS) << weft_last_error();
  EXPECT_NE(std::memcmp(&a, &b, sizeof(a)), 0);
}

// "None", as many say it: the end of time, which nothing may be added to.
TEST(UniqueId, TimeoutsWithoutAnEndAreNoOverflow) {
  weft_unique_id_t id;
  ASSERT_EQ(weft_unique_id_create(&id), WEFT_SUCCESS) << weft_last_error();
  OnThreads(2, [&](int rank) {
    weft_group_config_t config = ConfigNamed("endless", INT64_MAX);
    config.init_timeout_ns = INT64_MAX;
    weft_group_t group = nullptr;
    ASSERT_EQ(weft_group_create_from_id(&id, 2, rank, &config, &group), WEFT_SUCCESS)
        << weft_last_error();
    weft_group_t part = nullptr;
    ASSERT_EQ(weft_group_split(group, 0, rank, &config, &part), WEFT_SUCCESS) << weft_last_error();
    const weft_call_t call = {.struct_size = sizeof(call), .timeout_ns = INT64_MAX};
    EXPECT_EQ(weft_barrier(part, &call, nullptr), WEFT_SUCCESS) << weft_last_error();
    weft_work_t work = nullptr;
    ASSERT_EQ(weft_barrier(part, &call, &work), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_work_wait(work, INT64_MAX), WEFT_SUCCESS) << weft_last_error();
    weft_work_free(work);
    float x = 1;
    const int peer = 1 - rank;
    if (rank == 0) {
      EXPECT_EQ(weft_send(&x, 1, WEFT_FLOAT32, peer, 7, part, &call, nullptr), WEFT_SUCCESS);
    } else {
      EXPECT_EQ(weft_recv(&x, 1, WEFT_FLOAT32, peer, 7, nullptr, part, &call, nullptr),
                WEFT_SUCCESS);
    }
    weft_group_destroy(part);
    weft_group_destroy(group);
  });
}

TEST(UniqueId, ARankThatDoesNotComeIsATimeoutThatNamesIt) {
  weft_unique_id_t id;
  ASSERT_EQ(weft_unique_id_create(&id), WEFT_SUCCESS) << weft_last_error();
  const weft_group_config_t config = ConfigNamed("lonely", 100'000'000);
  weft_group_t group = nullptr;
  EXPECT_EQ(weft_group_create_from_id(&id, 2, 0, &config, &group), WEFT_TIMEOUT);
  EXPECT_THAT(weft_last_error(), HasSubstr("1"));
  EXPECT_EQ(group, nullptr);
}

}  // namespace
}  // namespace weft::test::unique_id_test

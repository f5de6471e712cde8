// weft_group_reconfigure: one handle before and after, whoever uses it meanwhile.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"
#include "weft/weft.hpp"

#include "tests/bindings/local_threads.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test::reconfigure_test {
namespace {

class ReconfiguredHandle : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    groups_.resize(static_cast<size_t>(size()));
    const weft_group_config_t config = ConfigNamed("first");
    ASSERT_EQ(weft_group_create_local(size(), &config, groups_.data()), WEFT_SUCCESS)
        << weft_last_error();
  }

  int size() const { return GetParam(); }

  weft_group_t of(int rank) const { return groups_[static_cast<size_t>(rank)]; }

  std::vector<weft_group_t> groups_;
};

weft_result_t AllReduce(weft_group_t group, int64_t* number) {
  return weft_all_reduce(number, number, 1, WEFT_INT64, WEFT_SUM, group, nullptr, nullptr);
}

TEST_P(ReconfiguredHandle, IsThatOfTheNewGroup) {
  OnThreads(size(), [&](int rank) {
    const char* before = nullptr;
    ASSERT_EQ(weft_group_name(of(rank), &before), WEFT_SUCCESS);
    int64_t one = 1;
    EXPECT_EQ(AllReduce(of(rank), &one), WEFT_SUCCESS) << weft_last_error();
    std::vector<int> members;
    for (int member = size() - 1; member >= 0; --member)
      members.push_back(member);
    weft_group_config_t config = ConfigNamed("second");
    ASSERT_EQ(weft_group_reconfigure(of(rank), members.data(), size(), &config), WEFT_SUCCESS)
        << weft_last_error();
    const char* after = nullptr;
    ASSERT_EQ(weft_group_name(of(rank), &after), WEFT_SUCCESS);
    EXPECT_STREQ(before, "first");  // still readable
    EXPECT_STREQ(after, "second");
    uint64_t sequence = 99;
    EXPECT_EQ(weft_group_sequence(of(rank), &sequence), WEFT_SUCCESS);
    EXPECT_EQ(sequence, 0U);
    EXPECT_EQ(weft_group_error(of(rank)), WEFT_SUCCESS) << weft_last_error();
    ExpectSumsAndDestroy(of(rank), size(), size() - 1 - rank);
  });
}

TEST_P(ReconfiguredHandle, CallsSinceTakeEveryWay) {
  OnThreads(size(), [&](int rank) {
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(weft_group_reconfigure(of(rank), nullptr, 0, nullptr), WEFT_SUCCESS)
          << weft_last_error();
      for (int repeat = 0; repeat < 3; ++repeat) {  // cached calls among them
        int64_t number = 1;
        EXPECT_EQ(AllReduce(of(rank), &number), WEFT_SUCCESS) << weft_last_error();
        EXPECT_EQ(number, size());
        weft_work_t work = nullptr;
        number = 1;
        EXPECT_EQ(
            weft_all_reduce(&number, &number, 1, WEFT_INT64, WEFT_SUM, of(rank), nullptr, &work),
            WEFT_SUCCESS)
            << weft_last_error();
        EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
        EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
        EXPECT_EQ(number, size());
        weft_call_t options = {};
        options.struct_size = sizeof(options);
        options.tag = 5;
        EXPECT_EQ(weft_barrier(of(rank), &options, nullptr), WEFT_SUCCESS) << weft_last_error();
      }
      void* shared = nullptr;
      EXPECT_EQ(weft_mem_alloc_shared(of(rank), 4096, &shared), WEFT_SUCCESS) << weft_last_error();
    }
    ExpectSumsAndDestroy(of(rank), size(), rank);
  });
}

TEST_P(ReconfiguredHandle, OfARankThatIsNotListedIsOfNoUse) {
  if (size() < 2) return;
  OnThreads(size(), [&](int rank) {
    const int members[] = {size() - 1};
    ASSERT_EQ(weft_group_reconfigure(of(rank), members, 1, nullptr), WEFT_SUCCESS)
        << weft_last_error();
    if (rank == size() - 1) {
      ExpectSumsAndDestroy(of(rank), 1, 0);
      return;
    }
    int number = -1;
    int64_t value = 1;
    weft_work_t work = nullptr;
    weft_group_t part = nullptr;
    weft_mesh_t mesh = nullptr;
    const weft_result_t results[] = {
        weft_group_rank(of(rank), &number),
        weft_group_error(of(rank)),
        AllReduce(of(rank), &value),
        weft_all_reduce(&value, &value, 1, WEFT_INT64, WEFT_SUM, of(rank), nullptr, &work),
        weft_send(&value, 1, WEFT_INT64, 0, 0, of(rank), nullptr, nullptr),
        weft_group_split(of(rank), 0, 0, nullptr, &part),
        weft_mesh_create(of(rank), nullptr, &mesh),
        weft_group_reconfigure(of(rank), nullptr, 0, nullptr),
    };
    for (const weft_result_t result : results)
      EXPECT_EQ(result, WEFT_BAD_STATE) << weft_last_error();
    EXPECT_NE(std::string(weft_last_error()).find("without this rank, " + std::to_string(rank)),
              std::string::npos)
        << weft_last_error();
    EXPECT_EQ(number, -1);
    EXPECT_EQ(weft_group_destroy(of(rank)), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_group_rank(of(rank), &number), WEFT_INVALID_ARGUMENT);
  });
}

// Threads that look at the handle all the time: they see the old group, or the new one.
TEST_P(ReconfiguredHandle, MayBeUsedByOtherThreadsMeanwhile) {
  if (size() > 4) return;
  std::atomic<int> going{size()};
  std::vector<std::thread> lookers;
  lookers.reserve(static_cast<size_t>(size()));
  for (int rank = 0; rank < size(); ++rank) {
    lookers.emplace_back([&, rank] {
      while (going.load() > 0) {
        int number = -1;
        EXPECT_EQ(weft_group_rank(of(rank), &number), WEFT_SUCCESS) << weft_last_error();
        EXPECT_EQ(number, rank);
        EXPECT_EQ(weft_group_size(of(rank), &number), WEFT_SUCCESS) << weft_last_error();
        EXPECT_EQ(number, size());
        weft_group_stats_t stats = {};
        stats.struct_size = sizeof(stats);
        EXPECT_EQ(weft_group_stats(of(rank), &stats), WEFT_SUCCESS) << weft_last_error();
        const weft_result_t error = weft_group_error(of(rank));
        EXPECT_TRUE(error == WEFT_SUCCESS || error == WEFT_ABORTED) << weft_last_error();
        weft_explain_query_t query = {};
        query.struct_size = sizeof(query);
        query.operation = "all_reduce";
        query.count = 1000;
        char text[4096];
        (void)weft_explain(of(rank), &query, text, sizeof(text), nullptr);
        const int64_t sent = 7;
        int64_t got = 0;
        weft_call_t brief = {};
        brief.struct_size = sizeof(brief);
        brief.timeout_ns = 60'000'000'000;
        // From itself: of whichever group it is.
        const weft_result_t result = weft_sendrecv(&sent, 1, rank, 0, &got, 1, rank, 0, WEFT_INT64,
                                                   nullptr, of(rank), &brief, nullptr);
        EXPECT_TRUE(result == WEFT_SUCCESS || result == WEFT_ABORTED) << weft_last_error();
        EXPECT_EQ(got, result == WEFT_SUCCESS ? 7 : got);
      }
    });
  }
  OnThreads(size(), [&](int rank) {
    for (int round = 0; round < 50; ++round) {
      EXPECT_EQ(weft_group_reconfigure(of(rank), nullptr, 0, nullptr), WEFT_SUCCESS)
          << weft_last_error();
    }
    going.fetch_sub(1);
  });
  for (std::thread& looker : lookers)
    looker.join();
  OnThreads(size(), [&](int rank) { ExpectSumsAndDestroy(of(rank), size(), rank); });
}

TEST_P(ReconfiguredHandle, OneThreadAtATime) {
  if (size() < 2) return;
  std::atomic<int> refused{0};
  OnThreads(size(), [&](int rank) {
    if (rank != 0) {  // comes when a second thread of rank 0 has been refused
      while (refused.load() == 0)
        std::this_thread::yield();
    } else {
      OnThreads(2, [&](int) {
        const weft_result_t result = weft_group_reconfigure(of(0), nullptr, 0, nullptr);
        if (result == WEFT_SUCCESS) return;
        EXPECT_EQ(result, WEFT_BAD_STATE) << weft_last_error();
        EXPECT_NE(std::string(weft_last_error()).find("another thread"), std::string::npos);
        refused.fetch_add(1);
      });
    }
    if (rank != 0) {
      EXPECT_EQ(weft_group_reconfigure(of(rank), nullptr, 0, nullptr), WEFT_SUCCESS)
          << weft_last_error();
    }
    ExpectSumsAndDestroy(of(rank), size(), rank);
  });
  EXPECT_EQ(refused.load(), 1);
}

// The old group's memory may be anybody's by the time that a context is told of the end.
TEST_P(ReconfiguredHandle, AMeshOnItHasToBeMadeAnew) {
  OnThreads(size(), [&](int rank) {
    weft_mesh_t mesh = nullptr;
    ASSERT_EQ(weft_mesh_create(of(rank), nullptr, &mesh), WEFT_SUCCESS) << weft_last_error();
    weft_group_t axis = nullptr;
    ASSERT_EQ(weft_mesh_axis_group(mesh, 0, &axis), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_group_reconfigure(axis, nullptr, 0, nullptr), WEFT_INVALID_USAGE);
    ASSERT_EQ(weft_group_reconfigure(of(rank), nullptr, 0, nullptr), WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS) << weft_last_error();
    mesh = nullptr;
    ASSERT_EQ(weft_mesh_create(of(rank), nullptr, &mesh), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS) << weft_last_error();
    ExpectSumsAndDestroy(of(rank), size(), rank);
  });
}

// In the middle of a step, with a unit gathered.
TEST_P(ReconfiguredHandle, AContextOnItFailsAndCanBeDestroyed) {
  OnThreads(size(), [&](int rank) {
    for (int round = 0; round < 2; ++round) {
      weft_mesh_t mesh = nullptr;
      ASSERT_EQ(weft_mesh_create(of(rank), nullptr, &mesh), WEFT_SUCCESS) << weft_last_error();
      weft_shard_context_t context = nullptr;
      ASSERT_EQ(weft_shard_context_create(mesh, nullptr, &context), WEFT_SUCCESS);
      weft_shard_policy_t policy = {};
      policy.struct_size = sizeof(policy);
      policy.preset = WEFT_SHARD_FULL_SHARD;
      weft_shard_unit_t units[2] = {};
      for (int i = 0; i < 2; ++i) {
        const int64_t count = 10'000;
        weft_shard_param_t param = nullptr;
        ASSERT_EQ(weft_shard_unit_begin(context, i == 0 ? "a" : "b", &policy, &units[i]),
                  WEFT_SUCCESS);
        ASSERT_EQ(AddParam(units[i], i == 0 ? "a.w" : "b.w", &count, 1, WEFT_FLOAT32, 0, &param),
                  WEFT_SUCCESS);
        ASSERT_EQ(weft_shard_unit_seal(units[i]), WEFT_SUCCESS);
      }
      ASSERT_EQ(weft_shard_context_finalize(context, nullptr), WEFT_SUCCESS) << weft_last_error();
      ASSERT_EQ(StepBegin(context), WEFT_SUCCESS);
      ASSERT_EQ(MicrobatchBegin(context, 0, 1), WEFT_SUCCESS);
      ASSERT_EQ(weft_shard_pre_forward(units[0], nullptr), WEFT_SUCCESS) << weft_last_error();
      ASSERT_EQ(weft_shard_post_forward(units[0], nullptr), WEFT_SUCCESS) << weft_last_error();
      ASSERT_EQ(weft_group_reconfigure(of(rank), nullptr, 0, nullptr), WEFT_SUCCESS)
          << weft_last_error();
      // What it does depends on which of its groups are the mesh's; it must not touch what is gone.
      const weft_result_t result = weft_shard_pre_forward(units[1], nullptr);
      EXPECT_TRUE(result == WEFT_SUCCESS || result == WEFT_ABORTED) << weft_last_error();
      EXPECT_EQ(weft_shard_context_destroy(context), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(weft_mesh_destroy(mesh), WEFT_SUCCESS) << weft_last_error();
    }
    ExpectSumsAndDestroy(of(rank), size(), rank);
  });
}

TEST(ReconfiguredWrapper, SaysWhetherTheRankIsListed) {
  std::vector<weft::Group> groups = weft::Group::Local(3);
  OnThreads(3, [&](int rank) {
    weft::Group& group = groups[static_cast<size_t>(rank)];
    EXPECT_TRUE(group.Reconfigure());
    EXPECT_EQ(group.Reconfigure({2, 0}), rank != 1);
    if (rank == 1) {
      EXPECT_THROW((void)group.Rank(), weft::Error);
    } else {
      EXPECT_EQ(group.Rank(), rank == 2 ? 0 : 1);
      EXPECT_EQ(group.Size(), 2);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(RankSet, ReconfiguredHandle, testing::Values(1, 2, 3, 4, 5, 7, 8));

}  // namespace
}  // namespace weft::test::reconfigure_test

// A start that fails has done nothing: no handle, no operation that peers could see, no buffer that is written later; the
// group goes on, and the same call may be made again. Every allocation of a start is made to fail in turn, and so is
// the making of the thread that moves operations.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"

namespace {

thread_local int allocations_left = 0;  // of this thread, until the one that fails; 0: none will
thread_local bool allocation_failed = false;
std::atomic<bool> no_threads{false};

bool Strikes() {
  if (allocations_left == 0 || --allocations_left > 0) return false;
  allocation_failed = true;
  errno = ENOMEM;
  return true;
}

}  // namespace

// In the place of the C library's, for this program and libweft.so.
extern "C" {
void* __libc_malloc(size_t bytes);                      // NOLINT: glibc's own names
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT
void* __libc_realloc(void* block, size_t bytes);        // NOLINT
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT

void* malloc(size_t bytes) {
  return Strikes() ? nullptr : __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  return Strikes() ? nullptr : __libc_calloc(count, bytes);
}

void* realloc(void* block, size_t bytes) {
  return Strikes() ? nullptr : __libc_realloc(block, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  return Strikes() ? nullptr : __libc_memalign(alignment, bytes);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  if (no_threads.load()) return EAGAIN;
  static const auto create =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, run, argument);
}
}

namespace weft::test {
namespace {

constexpr int kRanks = 3;  // so that every protocol is used
constexpr int kFailuresMax = 200;

// One kind of operation between rank 0, which starts it, and the others.
struct Kind {
  const char* name;
  size_t count;
  // On rank 0.
  std::function<weft_result_t(float* x, size_t count, weft_group_t group, weft_work_t* work)> start;
  // On the others, blocking.
  std::function<weft_result_t(float* x, size_t count, int rank, weft_group_t group)> answer;
  float expected;  // in x of rank 0, which began with 1s, those of rank r with r + 1
};

weft_result_t Sum(float* x, size_t count, weft_group_t group, weft_work_t* work) {
  return weft_all_reduce(x, x, count, WEFT_FLOAT32, WEFT_SUM, group, nullptr, work);
}

std::vector<Kind> Kinds() {
  const auto sum = [](const char* name, size_t count) {
    return Kind{
        name, count, Sum,
        [](float* x, size_t n, int, weft_group_t group) { return Sum(x, n, group, nullptr); }, 6};
  };
  const auto message = [](const char* name, size_t count) {
    return Kind{name, count,
                [](float* x, size_t n, weft_group_t group, weft_work_t* work) {
                  return weft_send(x, n, WEFT_FLOAT32, 1, 3, group, nullptr, work);
                },
                [](float* x, size_t n, int rank, weft_group_t group) {
                  if (rank != 1) return WEFT_SUCCESS;
                  return weft_recv(x, n, WEFT_FLOAT32, 0, 3, nullptr, group, nullptr, nullptr);
                },
                1};
  };
  return {
      sum("a sum in a line", 2),
      sum("a sum in slots", 500),
      sum("a sum in a ring of slots", 1500),
      sum("a sum in rounds", 100'003),
      message("a small send", 2),
      message("a large send", 100'003),
      {"a receive", 100'003,
       [](float* x, size_t n, weft_group_t group, weft_work_t* work) {
         return weft_recv(x, n, WEFT_FLOAT32, WEFT_ANY_SOURCE, 3, nullptr, group, nullptr, work);
       },
       [](float* x, size_t n, int rank, weft_group_t group) {
         if (rank != 2) return WEFT_SUCCESS;
         return weft_send(x, n, WEFT_FLOAT32, 0, 3, group, nullptr, nullptr);
       },
       3},
      {"a send and receive", 1000,
       [](float* x, size_t n, weft_group_t group, weft_work_t* work) {
         return weft_sendrecv(x, n / 2, 1, 3, x + n / 2, n / 2, 1, 3, WEFT_FLOAT32, nullptr, group,
                              nullptr, work);
       },
       [](float* x, size_t n, int rank, weft_group_t group) {
         if (rank != 1) return WEFT_SUCCESS;
         return weft_sendrecv(x, n / 2, 0, 3, x + n / 2, n / 2, 0, 3, WEFT_FLOAT32, nullptr, group,
                              nullptr, nullptr);
       },
       2},
  };
}

struct Groups {
  Groups() {
    const weft_group_config_t config = ConfigNamed("failing", 10'000'000'000);
    EXPECT_EQ(weft_group_create_local(kRanks, &config, ranks), WEFT_SUCCESS) << weft_last_error();
  }

  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  ~Groups() {
    OnThreads(kRanks,
              [this](int rank) { EXPECT_EQ(weft_group_destroy(ranks[rank]), WEFT_SUCCESS); });
  }

  // Operations of rank 0, and those of them that failed.
  weft_group_stats_t StatsOfRank0() const {
    weft_group_stats_t stats = {};
    stats.struct_size = sizeof(stats);
    EXPECT_EQ(weft_group_stats(ranks[0], &stats), WEFT_SUCCESS);
    return stats;
  }

  weft_group_t ranks[kRanks] = {};
};

// The other ranks do their part, and all ranks another sum: had the failed call left anything, that would be found here.
void ExpectAllGoesOn(const Kind& kind, const Groups& groups, weft_work_t work, float* x) {
  OnThreads(kRanks, [&](int rank) {
    weft_group_t const group = groups.ranks[rank];
    if (rank == 0) {
      EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
      EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
    } else {
      std::vector<float> y(kind.count, static_cast<float>(rank + 1));
      EXPECT_EQ(kind.answer(y.data(), kind.count, rank, group), WEFT_SUCCESS) << weft_last_error();
    }
    float sum = 1;
    EXPECT_EQ(Sum(&sum, 1, group, nullptr), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(sum, kRanks);
  });
  EXPECT_EQ(x[kind.count - 1], kind.expected);
  const weft_group_stats_t stats = groups.StatsOfRank0();
  EXPECT_EQ(stats.failures, 0u);
  EXPECT_EQ(stats.pending, 0u);
}

void ExpectNothingHasHappened(weft_work_t work, const std::vector<float>& x, const Groups& groups) {
  EXPECT_EQ(work, nullptr);
  EXPECT_EQ(x, std::vector<float>(x.size(), 1));
  EXPECT_EQ(weft_group_error(groups.ranks[0]), WEFT_SUCCESS) << weft_last_error();
  const weft_group_stats_t stats = groups.StatsOfRank0();
  EXPECT_EQ(stats.collectives + stats.messages + stats.pending, 0u);
}

// A thread that cannot be made for lack of memory looks to its maker like any that cannot be made.
void ExpectNoMemory(weft_result_t result) {
  EXPECT_TRUE(result == WEFT_OUT_OF_MEMORY || result == WEFT_SYSTEM_ERROR)
      << weft_result_name(result) << ": " << weft_last_error();
}

TEST(FailedStart, OfAnOperationWithoutMemoryHasDoneNothing) {
  for (const Kind& kind : Kinds()) {
    int refused = 0;
    for (int k = 1; k <= kFailuresMax; ++k) {
      SCOPED_TRACE(std::string(kind.name) + ", allocation " + std::to_string(k));
      const Groups groups;
      std::vector<float> x(kind.count, 1);
      weft_work_t work = nullptr;
      allocation_failed = false;
      allocations_left = k;
      const weft_result_t result = kind.start(x.data(), kind.count, groups.ranks[0], &work);
      allocations_left = 0;
      if (result != WEFT_SUCCESS) {
        ++refused;
        ExpectNoMemory(result);
        ExpectNothingHasHappened(work, x, groups);
        ASSERT_EQ(kind.start(x.data(), kind.count, groups.ranks[0], &work), WEFT_SUCCESS)
            << weft_last_error();
      }
      ASSERT_NE(work, nullptr);
      ExpectAllGoesOn(kind, groups, work, x.data());
      if (HasFailure() || !allocation_failed) break;
      ASSERT_LT(k, kFailuresMax);
    }
    EXPECT_GE(refused, 2) << kind.name;
  }
}

TEST(FailedStart, WithoutAThreadHasDoneNothing) {
  for (const Kind& kind : Kinds()) {
    SCOPED_TRACE(kind.name);
    no_threads.store(true);
    const Groups groups;  // which do without
    std::vector<float> x(kind.count, 1);
    weft_work_t work = nullptr;
    const weft_result_t result = kind.start(x.data(), kind.count, groups.ranks[0], &work);
    no_threads.store(false);
    EXPECT_EQ(result, WEFT_SYSTEM_ERROR) << weft_result_name(result);
    EXPECT_NE(std::string(weft_last_error()).find("ulimit -u"), std::string::npos)
        << weft_last_error();
    ExpectNothingHasHappened(work, x, groups);
    if (work == nullptr) {
      ASSERT_EQ(kind.start(x.data(), kind.count, groups.ranks[0], &work), WEFT_SUCCESS)
          << weft_last_error();
    }
    ExpectAllGoesOn(kind, groups, work, x.data());
  }
}

// Started when the batch ends, which cannot take the handle back: it says why there is no operation.
TEST(FailedStart, OfABatchHasDoneNothing) {
  const Kind kind = Kinds()[0];
  int refused = 0;
  for (int k = 0; k <= kFailuresMax; ++k) {
    SCOPED_TRACE("allocation " + std::to_string(k) + ", 0: no thread");
    no_threads.store(k == 0);
    const Groups groups;
    std::vector<float> x(kind.count, 1);
    weft_work_t work = nullptr;
    ASSERT_EQ(weft_batch_begin(), WEFT_SUCCESS);
    ASSERT_EQ(kind.start(x.data(), kind.count, groups.ranks[0], &work), WEFT_SUCCESS);
    allocation_failed = false;
    allocations_left = k;
    const weft_result_t result = weft_batch_end();
    allocations_left = 0;
    no_threads.store(false);
    if (result != WEFT_SUCCESS) {
      ++refused;
      ExpectNoMemory(result);
      EXPECT_EQ(weft_work_error(work), result);
      EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
      ExpectNothingHasHappened(nullptr, x, groups);
      ASSERT_EQ(kind.start(x.data(), kind.count, groups.ranks[0], &work), WEFT_SUCCESS);
    }
    ExpectAllGoesOn(kind, groups, work, x.data());
    if (HasFailure() || (k > 0 && !allocation_failed)) break;
    ASSERT_LT(k, kFailuresMax);
  }
  EXPECT_GE(refused, 2);
}

}  // namespace
}  // namespace weft::test

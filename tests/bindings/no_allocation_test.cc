// The steady blocking path takes no memory, and a completion queue no more than it must: malloc and its relatives are counted, in this program and in
// libweft.so, while every blocking call is repeated with sizes for every algorithm.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "local_threads.h"

namespace {
thread_local bool counting = false;
std::atomic<size_t> allocations{0};
}  // namespace

extern "C" {
void* __libc_malloc(size_t bytes);                      // NOLINT: glibc's own names
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT
void* __libc_realloc(void* block, size_t bytes);        // NOLINT
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT

void* malloc(size_t bytes) {
  if (counting) ++allocations;
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  if (counting) ++allocations;
  return __libc_calloc(count, bytes);
}

void* realloc(void* block, size_t bytes) {
  if (counting) ++allocations;
  return __libc_realloc(block, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  if (counting) ++allocations;
  return __libc_memalign(alignment, bytes);
}
}

namespace weft::test {
namespace {

constexpr int kRanks = 3;
constexpr int kWarmups = 3;
constexpr int kRounds = 20;

// One rank's buffers, large enough for every call below.
struct Buffers {
  float* in;
  float* out;
  size_t counts[kRanks];
  weft_iov_t parts[2];
};

struct Call {
  const char* name;
  std::function<weft_result_t(const Buffers&, size_t, weft_group_t)> run;
};

std::vector<Call> Calls(weft_op_t scaled) {
  constexpr weft_dtype_t kType = WEFT_FLOAT32;
  using B = const Buffers&;
  using G = weft_group_t;
  return {
      {"all_reduce",
       [=](B b, size_t n, G g) {
         return weft_all_reduce(b.in, b.out, n, kType, WEFT_SUM, g, nullptr, nullptr);
       }},
      {"all_reduce by premul_sum",
       [=](B b, size_t n, G g) {
         return weft_all_reduce(b.in, b.out, n, kType, scaled, g, nullptr, nullptr);
       }},
      {"reduce",
       [=](B b, size_t n, G g) {
         return weft_reduce(b.in, b.out, n, kType, WEFT_MAX, 1, g, nullptr, nullptr);
       }},
      {"broadcast",
       [=](B b, size_t n, G g) {
         return weft_broadcast(b.in, b.out, n, kType, 2, g, nullptr, nullptr);
       }},
      {"all_gather",
       [=](B b, size_t n, G g) {
         return weft_all_gather(b.in, b.out, n, kType, g, nullptr, nullptr);
       }},
      {"reduce_scatter",
       [=](B b, size_t n, G g) {
         return weft_reduce_scatter(b.in, b.out, n, kType, WEFT_SUM, g, nullptr, nullptr);
       }},
      {"gather",
       [=](B b, size_t n, G g) {
         return weft_gather(b.in, b.out, n, kType, 0, g, nullptr, nullptr);
       }},
      {"scatter",
       [=](B b, size_t n, G g) {
         return weft_scatter(b.in, b.out, n, kType, 0, g, nullptr, nullptr);
       }},
      {"all_to_all",
       [=](B b, size_t n, G g) {
         return weft_all_to_all(b.in, b.out, n, kType, g, nullptr, nullptr);
       }},
      {"all_gather_v",
       [=](B b, size_t, G g) {
         return weft_all_gather_v(b.in, b.out, b.counts, nullptr, kType, g, nullptr, nullptr);
       }},
      {"reduce_scatter_v",
       [=](B b, size_t, G g) {
         return weft_reduce_scatter_v(b.in, b.out, b.counts, nullptr, kType, WEFT_SUM, g, nullptr,
                                      nullptr);
       }},
      {"gather_v",
       [=](B b, size_t n, G g) {
         return weft_gather_v(b.in, n, b.out, b.counts, nullptr, kType, 1, g, nullptr, nullptr);
       }},
      {"scatter_v",
       [=](B b, size_t n, G g) {
         return weft_scatter_v(b.in, b.counts, nullptr, b.out, n, kType, 1, g, nullptr, nullptr);
       }},
      {"all_to_all_v",
       [=](B b, size_t, G g) {
         return weft_all_to_all_v(b.in, b.counts, nullptr, b.out, b.counts, nullptr, kType, g,
                                  nullptr, nullptr);
       }},
      {"all_reduce_iov",
       [=](B b, size_t, G g) {
         return weft_all_reduce_iov(b.parts, 2, kType, WEFT_SUM, g, nullptr, nullptr);
       }},
      {"barrier",
       [=](B, size_t, G g) {
         return weft_barrier(g, nullptr, nullptr);
       }},
      {"send and recv",
       [=](B b, size_t n, G g) {
         int rank = 0;
         weft_group_rank(g, &rank);
         if (rank == 2) return WEFT_SUCCESS;
         return rank == 0 ? weft_send(b.in, n, kType, 1, 7, g, nullptr, nullptr)
                          : weft_recv(b.out, n, kType, 0, 7, nullptr, g, nullptr, nullptr);
       }},
  };
}

std::string RunCalls(weft_group_t group, weft_op_t scaled, bool symmetric) {
  constexpr size_t kLargest = 40000;
  constexpr size_t kBytes = kLargest * (kRanks + 1) * sizeof(float);
  void* memory[2] = {};
  for (void*& block : memory) {
    if (symmetric) {
      if (weft_mem_alloc(kBytes, 0, &block) != WEFT_SUCCESS) return weft_last_error();
    } else {
      block = std::calloc(1, kBytes);
    }
  }
  Buffers buffers{static_cast<float*>(memory[0]), static_cast<float*>(memory[1]), {}, {}};
  for (const Call& call : Calls(scaled)) {
    for (const size_t count : {2UL, 300UL, kLargest}) {
      for (size_t& each : buffers.counts)
        each = count;
      buffers.parts[0] = {buffers.in, buffers.out, count / 2};
      buffers.parts[1] = {buffers.in + count, buffers.out + count, count / 2};
      for (int round = 0; round < kWarmups + kRounds; ++round) {
        counting = round >= kWarmups;
        const weft_result_t result = call.run(buffers, count, group);
        counting = false;
        if (result != WEFT_SUCCESS) return std::string(call.name) + ": " + weft_last_error();
      }
      if (allocations > 0) {
        return std::string(call.name) + " of " + std::to_string(count) +
               " float32: " + std::to_string(allocations) + " allocations";
      }
    }
  }
  for (void* block : memory) {
    if (symmetric) {
      weft_mem_free(block);
    } else {
      std::free(block);
    }
  }
  return "";
}

TEST(NoAllocation, InTheSteadyBlockingPath) {
  const float factor = 0.5f;
  weft_op_t scaled = WEFT_SUM;
  ASSERT_EQ(weft_op_create_premul_sum(&factor, WEFT_FLOAT32, &scaled), WEFT_SUCCESS);
  for (const bool symmetric : {false, true}) {
    allocations = 0;
    weft_group_t groups[kRanks] = {};
    const weft_group_config_t config = ConfigNamed("steady");
    ASSERT_EQ(weft_group_create_local(kRanks, &config, groups), WEFT_SUCCESS) << weft_last_error();
    OnThreads(kRanks, [&](int rank) {
      EXPECT_EQ(RunCalls(groups[rank], scaled, symmetric), "")
          << (symmetric ? "symmetric" : "private");
      EXPECT_EQ(weft_group_destroy(groups[rank]), WEFT_SUCCESS);
    });
  }
  EXPECT_EQ(weft_op_destroy(scaled), WEFT_SUCCESS);
}

TEST(NoAllocation, WouldBeSeen) {
  allocations = 0;
  counting = true;
  std::free(std::malloc(100));
  counting = false;
  EXPECT_EQ(allocations, 1u);
}

// A work in a completion queue: one allocation to add it, none to take its completion.
TEST(NoAllocation, OnePerWorkOfACompletionQueue) {
  weft_group_t groups[2] = {};
  weft_completion_queue_t queue = nullptr;
  const weft_group_config_t config = ConfigNamed("queue");
  ASSERT_EQ(weft_group_create_local(2, &config, groups), WEFT_SUCCESS) << weft_last_error();
  ASSERT_EQ(weft_completion_queue_create(nullptr, &queue), WEFT_SUCCESS) << weft_last_error();
  for (int round = 0; round < kWarmups + kRounds; ++round) {
    weft_work_t work = nullptr;
    ASSERT_EQ(weft_barrier(groups[0], nullptr, &work), WEFT_SUCCESS) << weft_last_error();
    weft_completion_t ended[4];
    size_t count = 0;
    allocations = 0;
    counting = true;
    const weft_result_t added = weft_completion_queue_add(queue, work, 1);
    counting = false;
    ASSERT_EQ(weft_barrier(groups[1], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
    counting = true;
    const weft_result_t taken = weft_completion_queue_wait(queue, 0, ended, 4, &count);
    counting = false;
    EXPECT_EQ(added, WEFT_SUCCESS);
    EXPECT_EQ(taken, WEFT_SUCCESS);
    EXPECT_EQ(count, 1u);
    if (round >= kWarmups) {
      EXPECT_EQ(allocations, 1u) << "round " << round;
    }
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  }
  EXPECT_EQ(weft_completion_queue_destroy(queue), WEFT_SUCCESS);
  for (weft_group_t group : groups)
    EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test

// A completion queue and pairs of ranks, for tests of both. Also used with WEFT_PROGRESS=caller, where nothing moves but by
// the thread that waits.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"

namespace weft::test {

// More than anything here takes; what does not end by then is a deadlock.
inline constexpr int64_t kPatienceNs = 30'000'000'000;

inline bool CallerDrives() {
  const char* const progress = getenv("WEFT_PROGRESS");
  return progress != nullptr && std::strcmp(progress, "caller") == 0;
}

using Tokens = std::vector<uint64_t>;

class Queue {
 public:
  explicit Queue(const weft_completion_queue_config_t* config = nullptr) {
    EXPECT_EQ(weft_completion_queue_create(config, &handle_), WEFT_SUCCESS) << weft_last_error();
  }

  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  ~Queue() { Destroy(); }

  void Destroy() {
    EXPECT_EQ(weft_completion_queue_destroy(std::exchange(handle_, nullptr)), WEFT_SUCCESS);
  }

  weft_completion_queue_t get() const { return handle_; }

  // Gives the handle away, as most programs do.
  void Add(weft_work_t work, uint64_t token) const {
    EXPECT_EQ(weft_completion_queue_add(handle_, work, token), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  }

  // The tokens of one wait, whose operations have ended well.
  Tokens Wait(size_t capacity = 64, int64_t timeout_ns = kPatienceNs) const {
    std::vector<weft_completion_t> ended(capacity);
    size_t count = 99;
    EXPECT_EQ(weft_completion_queue_wait(handle_, timeout_ns, ended.data(), capacity, &count),
              WEFT_SUCCESS)
        << weft_last_error();
    return TokensOf(ended, count);
  }

  Tokens Poll(size_t capacity = 64) const {
    std::vector<weft_completion_t> ended(capacity);
    size_t count = 99;
    EXPECT_EQ(weft_completion_queue_poll(handle_, ended.data(), capacity, &count), WEFT_SUCCESS)
        << weft_last_error();
    return TokensOf(ended, count);
  }

  // Of `total` completions.
  Tokens WaitFor(size_t total) const {
    Tokens tokens;
    while (tokens.size() < total) {
      const Tokens some = Wait();
      if (some.empty()) break;
      tokens.insert(tokens.end(), some.begin(), some.end());
    }
    EXPECT_EQ(tokens.size(), total);
    return tokens;
  }

  size_t Pending() const {
    size_t pending = 99;
    EXPECT_EQ(weft_completion_queue_pending(handle_, &pending), WEFT_SUCCESS);
    return pending;
  }

  void Wake() const { EXPECT_EQ(weft_completion_queue_wake(handle_), WEFT_SUCCESS); }

 private:
  static Tokens TokensOf(const std::vector<weft_completion_t>& ended, size_t count) {
    EXPECT_LE(count, ended.size());
    Tokens tokens;
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(ended[i].result, WEFT_SUCCESS) << ended[i].message;
      EXPECT_STREQ(ended[i].message, "");
      EXPECT_EQ(ended[i].reserved, 0);
      tokens.push_back(ended[i].token);
    }
    return tokens;
  }

  weft_completion_queue_t handle_ = nullptr;
};

struct Pair {
  explicit Pair(const char* name) {
    const weft_group_config_t config = ConfigNamed(name, kPatienceNs);
    EXPECT_EQ(weft_group_create_local(2, &config, ranks), WEFT_SUCCESS) << weft_last_error();
  }

  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  ~Pair() {
    for (weft_group_t group : ranks)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS);
  }

  weft_work_t StartBarrier(int rank) const {
    weft_work_t work = nullptr;
    EXPECT_EQ(weft_barrier(ranks[rank], nullptr, &work), WEFT_SUCCESS) << weft_last_error();
    return work;
  }

  // The other rank of barriers that `rank` has started.
  void Barrier(int rank) const {
    EXPECT_EQ(weft_barrier(ranks[rank], nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
  }

  weft_group_t ranks[2] = {};
};

inline weft_work_t StartSum(weft_group_t group, std::vector<int>& x) {
  weft_work_t work = nullptr;
  EXPECT_EQ(
      weft_all_reduce(x.data(), x.data(), x.size(), WEFT_INT32, WEFT_SUM, group, nullptr, &work),
      WEFT_SUCCESS)
      << weft_last_error();
  return work;
}

}  // namespace weft::test

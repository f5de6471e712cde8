// Ranks as threads of the test.
//
//   RunAsThreads(3, [&](size_t rank, weft_group_t group) { ... });
//
// Every rank's group has a deadline, so a rank that is missing ends the others with an error instead of
// hanging the test. The function must not throw.
#ifndef WEFT_TESTS_TRAINER_RANK_THREADS_H_
#define WEFT_TESTS_TRAINER_RANK_THREADS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/error.h"
#include "weft/group.h"

namespace weft::trainer {

inline void RunAsThreads(size_t ranks,
                         const std::function<void(size_t rank, weft_group_t group)>& run) {
  weft_group_config_t config = {};
  config.struct_size = sizeof config;
  config.timeout_ns = int64_t{60} * 1000000000;
  std::vector<weft_group_t> groups(ranks);
  ASSERT_EQ(weft_group_create_local(int(ranks), &config, groups.data()), WEFT_SUCCESS)
      << weft_last_error();
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks; rank++)
    threads.emplace_back([&, rank] { run(rank, groups[rank]); });
  for (std::thread& thread : threads)
    thread.join();
  for (weft_group_t group : groups)
    weft_group_destroy(group);
}

}  // namespace weft::trainer

#endif  // WEFT_TESTS_TRAINER_RANK_THREADS_H_

// Ranks as threads, for tests of the C++ wrapper.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "weft/weft.hpp"

namespace weft_test {

// Runs `body` on every rank of a local group, each on its own thread.
inline void OnRanks(int size, const std::function<void(const weft::Group&, int)>& body) {
  weft_group_config_t config = {};
  config.struct_size = sizeof(config);
  config.timeout_ns = 60'000'000'000;
  const std::vector<weft::Group> groups = weft::Group::Local(size, &config);
  std::vector<std::thread> threads;
  threads.reserve(groups.size());
  for (const weft::Group& group : groups)
    threads.emplace_back([&] { body(group, group.Rank()); });
  for (std::thread& thread : threads)
    thread.join();
}

}  // namespace weft_test

#include "comm/hierarchy/net_buffers.h"

#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace weft::net_buffers_test {
namespace {

constexpr size_t kKeptBytes = size_t{64} << 20;

TEST(NetBuffers, GivesWhatWasGivenBack) {
  const auto buffers = std::make_shared<NetBuffers>(kKeptBytes);
  std::byte* first = nullptr;
  {
    const NetBuffer buffer = buffers->Take(100'000);
    first = buffer.data();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0U);
    std::memset(first, 1, 100'000);
    EXPECT_NE(buffers->Take(100'000).data(), first);
  }
  const NetBuffer again = buffers->Take(90'000);
  const NetBuffer other = buffers->Take(90'000);
  EXPECT_TRUE(again.data() == first || other.data() == first);
}

TEST(NetBuffers, MovesAndOutlivesThePool) {
  auto buffers = std::make_shared<NetBuffers>(kKeptBytes);
  NetBuffer buffer = buffers->Take(0);
  std::byte* const memory = buffer.data();
  NetBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.data(), memory);
  moved = buffers->Take(1 << 20);
  EXPECT_EQ(buffers->Take(1).data(), memory);
  buffers.reset();
  std::memset(moved.data(), 2, 1 << 20);
}

TEST(NetBuffers, KeepsLittle) {
  const auto buffers = std::make_shared<NetBuffers>(kKeptBytes);
  std::vector<NetBuffer> taken;
  for (int i = 0; i < 12; ++i)
    taken.push_back(buffers->Take(kKeptBytes / 4));
  taken.clear();
  for (int i = 0; i < 3; ++i)
    taken.push_back(buffers->Take(kKeptBytes + 1));  // too large to be kept at all
}

TEST(NetBuffers, KeepsNothingIfItIsNotTo) {
  const auto buffers = std::make_shared<NetBuffers>(0);
  for (int i = 0; i < 3; ++i) {
    const NetBuffer buffer = buffers->Take(5000);
    std::memset(buffer.data(), i, 5000);
  }
}

TEST(NetBuffers, ServesManyThreads) {
  const auto buffers = std::make_shared<NetBuffers>(kKeptBytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 2'000; ++i) {
        const NetBuffer buffer = buffers->Take(i % 5 * 3000);
        std::memset(buffer.data(), t, i % 5 * 3000);
        for (size_t at = 0; at < i % 5 * 3000; at += 500)
          ASSERT_EQ(buffer.data()[at], static_cast<std::byte>(t));
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

}  // namespace
}  // namespace weft::net_buffers_test

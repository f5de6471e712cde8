// A memory resource as weft's allocator: a program of its own, because it is set before the first group. C++17.
#include <atomic>
#include <cstddef>
#include <memory_resource>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.hpp"

namespace {

// Counts what is out.
class Counting : public std::pmr::memory_resource {
 public:
  std::atomic<long> allocated = 0;
  std::atomic<long> bytes_out = 0;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++allocated;
    bytes_out += static_cast<long>(bytes);
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }

  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
    bytes_out -= static_cast<long>(bytes);
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
  }

  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

TEST(WrapperAllocator, AMessageThatComesEarlyIsKeptInIt) {
  Counting resource;
  weft::SetMemoryResource(&resource);
  {
    const std::vector<weft::Group> groups = weft::Group::Local(2);
    EXPECT_THROW(weft::SetDefaultAllocator(), weft::Error);
    const std::vector<float> sent(500, 2.5f);
    std::vector<float> received(500, 0.0f);
    const weft::Work other = groups[1].Start().Send(sent.data(), sent.size(), 0, 1);
    const weft::Work send = groups[1].Start().Send(sent.data(), sent.size(), 0, 2);
    send.Wait();
    const weft::Work late = groups[0].Start().Recv(received.data(), received.size(), 1, 2);
    late.Wait();
    EXPECT_EQ(received, sent);
    const weft::Work rest = groups[0].Start().Recv(received.data(), received.size(), 1, 1);
    rest.Wait();
    other.Wait();
  }
  EXPECT_GT(resource.allocated.load(), 0) << "mem.h: messages that came before their receive";
  EXPECT_EQ(resource.bytes_out.load(), 0);
}

}  // namespace

// Rings between two threads, at sizes that never fit, and with counts that make no sense.
#include "comm/transport/shared_memory_ring.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "base/text.h"
#include "tests/support/case_sample.h"

namespace weft::test::shared_memory_ring_test {
namespace {

TEST(SharedMemoryRing, BytesOfAnySizeGoThroughInOrder) {
  const uint64_t seed = FirstSeedToTry(1);
  SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", seed));
  for (const size_t size : {size_t{4096}, size_t{65'536}}) {
    RingHead head{};
    std::vector<std::byte> memory(size);
    const SharedMemoryRing ring{.head = &head, .bytes = memory.data(), .size = size};
    std::vector<std::byte> from(3'000'003);
    std::vector<std::byte> to(from.size());
    std::mt19937_64 values(seed);
    for (std::byte& byte : from)
      byte = static_cast<std::byte>(values());
    // Two pieces at a time, as links have them.
    const auto move = [&](std::vector<std::byte>* bytes, uint64_t own_seed, const auto& call) {
      std::mt19937_64 random(own_seed);
      for (size_t at = 0; at < bytes->size();) {
        const size_t first = 1 + random() % std::min<size_t>(bytes->size() - at, 57);
        const size_t left = bytes->size() - at - first;
        const size_t second = left == 0 ? 0 : random() % std::min<size_t>(left, 2 * size);
        const iovec pieces[] = {{bytes->data() + at, first}, {bytes->data() + at + first, second}};
        const IoResult result = call(std::span(pieces, second > 0 ? 2 : 1));
        ASSERT_NE(result.state, IoState::kFailed);
        if (result.state == IoState::kDone) at += result.bytes;
        if (result.state == IoState::kWouldBlock) sched_yield();
      }
    };
    std::thread writer([&] {
      RingWriter out(ring);
      move(&from, seed + 1, [&](std::span<const iovec> pieces) { return out.Write(pieces); });
    });
    RingReader in(ring);
    move(&to, seed + 2, [&](std::span<const iovec> pieces) { return in.Read(pieces); });
    writer.join();
    EXPECT_TRUE(from == to);
    EXPECT_FALSE(in.HasBytes());
  }
}

TEST(SharedMemoryRing, CountsThatMakeNoSenseEndTheStream) {
  RingHead head{};
  std::vector<std::byte> memory(4096);
  const SharedMemoryRing ring{.head = &head, .bytes = memory.data(), .size = memory.size()};
  char byte = 'x';
  const iovec piece{&byte, 1};
  for (const uint64_t written : {uint64_t{4097}, UINT64_MAX}) {
    RingReader in(ring);
    head.written = written;
    const IoResult got = in.Read(std::span(&piece, 1));
    EXPECT_EQ(got.state, IoState::kFailed);
    EXPECT_EQ(got.error_number, EBADMSG);
  }
  head.written = 0;
  head.taken = 1;
  RingWriter out(ring);
  std::vector<char> many(4097);
  const iovec all{many.data(), many.size()};
  EXPECT_EQ(out.Write(std::span(&all, 1)).state, IoState::kFailed);
}

}  // namespace
}  // namespace weft::test::shared_memory_ring_test

// Many islands at once: what connecting, one failure and the loss of a machine cost each of them, in frames and in memory.
#include <algorithm>
#include <cstdio>

#include <gtest/gtest.h>
#include <malloc.h>

#include "base/text.h"
#include "tests/comm/agent/island_job.h"
#include "tests/support/case_sample.h"

namespace weft::test::island_scale_test {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kGroup = 7;

#ifdef WEFT_SANITIZE
constexpr size_t kBytesMax = SIZE_MAX;  // its allocator says nothing
#else
constexpr size_t kBytesMax = size_t{64} * 1024;
#endif

// What a speaker holds, by what it gives back.
size_t BytesOf(IslandAgent* agent) {
#ifdef WEFT_SANITIZE
  (void)agent;
  return 0;
#else
  const size_t before = mallinfo2().uordblks;
  agent->Hush();
  return before - std::min(before, static_cast<size_t>(mallinfo2().uordblks));
#endif
}

void RunScale(int islands, size_t bytes_max) {
  IslandJob job(static_cast<uint64_t>(islands), {.islands = islands, .ranks_per_island = 1});
  const int64_t begin_ns = job.world().now_ns();
  const int64_t raised_ns = begin_ns + kSecondNs;
  // By then all are connected, and nobody has said anything but that.
  job.RunUntil([] { return false; }, raised_ns - 1);
  const uint64_t connecting = job.frames_sent();
  size_t connections = 0;
  for (int island = 0; island < islands; ++island)
    connections = std::max(connections, job.Speaker(island)->connection_count());
  job.RaiseAt(raised_ns, islands / 2,
              {.group_id = kGroup,
               .finder = islands / 2,
               .culprit = 1,
               .result = WEFT_TIMEOUT,
               .sentence = std::string(kFailureSentenceMax, 's')});
  ASSERT_TRUE(job.RunUntil(
      [&] {
        for (int island = 0; island < islands; ++island) {
          if (job.seen(island).settled.count(kGroup) == 0) return false;
        }
        return true;
      },
      raised_ns + 3 * kSecondNs));
  int64_t known_ns = 0;
  int64_t settled_ns = 0;
  for (int island = 0; island < islands; ++island) {
    known_ns = std::max(known_ns, job.seen(island).failed_ns.at(kGroup) - raised_ns);
    settled_ns = std::max(settled_ns, job.seen(island).settled_ns.at(kGroup) - raised_ns);
    EXPECT_TRUE(job.seen(island).unreachable_ns.empty());
  }
  EXPECT_LE(known_ns, kSecondNs);
  job.RunUntil([] { return false; }, job.world().now_ns() + kSecondNs);
  const uint64_t telling = job.frames_sent() - connecting;
  job.ExpectSafe();
  const size_t bytes = BytesOf(job.Speaker(islands / 3));
  EXPECT_LE(bytes, bytes_max);
  EXPECT_LE(connections, IslandTopology(islands).NeighboursOf(0).size() + 2);
  std::printf(
      "%d islands: %zu connections at most; known to all after %.3f s, settled after %.3f s; "
      "frames per "
      "island: %.1f connecting, %.1f for the failure; %zu bytes per speaker\n",
      islands, connections, static_cast<double>(known_ns) / kSecondNs,
      static_cast<double>(settled_ns) / kSecondNs, static_cast<double>(connecting) / islands,
      static_cast<double>(telling) / islands, bytes);
}

TEST(IslandScale, SixtyFourIslandsFitIntoTheirMemory) {
  RunScale(64, kBytesMax);
}

TEST(IslandScale, ThousandsOfIslandsHearOfAFailureWithinASecond) {
  RunScale(AllCasesWanted() ? IslandTopology::kIslandsMax : 128, SIZE_MAX);
}

}  // namespace
}  // namespace weft::test::island_scale_test

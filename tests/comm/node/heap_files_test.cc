// Ranges of files registered with the heap: where peers find them, refusals, failures of every system call, and that
// nothing of the caller's mapping changes. What collectives make of them: registered_collectives_test.cc.
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/status.h"
#include "comm/node/heap.h"
#include "shared_file.h"
#include "tests/support/failing_calls.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

TEST(HeapFiles, HaveAPlaceBeyondTheHeapAndStayWhereTheyAre) {
  const SharedFile file(8 * PageBytes(), 2 * PageBytes());
  const Holdings before = Holdings::Now();
  Heap heap;
  ASSERT_TRUE(heap.RegisterFile(file.data() + 100, 5000, file.fd(), file.offset() + 100).ok());
  EXPECT_EQ(heap.live_bytes(), 0u);
  const auto place = heap.OffsetOf(file.data() + 100, 5000);
  ASSERT_TRUE(place.has_value());
  EXPECT_GE(*place, kFilePlaces);
  EXPECT_EQ(*heap.OffsetOf(file.data() + 200, 4900), *place + 100);
  EXPECT_FALSE(heap.OffsetOf(file.data() + 200, 4901).has_value());
  EXPECT_FALSE(heap.OffsetOf(file.data() + 99, 1).has_value());
  EXPECT_EQ(*heap.AddressInFile(*place + 17, 10), file.data() + 117);
  EXPECT_EQ(ResultOf(heap.AddressInFile(*place, 5001).status()), WEFT_CORRUPT);
  EXPECT_EQ(ResultOf(heap.AddressInFile(*place - 1, 1).status()), WEFT_CORRUPT);
  const auto what = heap.PlaceOf(file.data() + 300);
  ASSERT_TRUE(what.has_value());
  EXPECT_TRUE(what->registered);
  EXPECT_EQ(what->begin, file.data() + 100);
  EXPECT_EQ(what->bytes, 5000u);
  EXPECT_TRUE(heap.Deregister(file.data() + 100).ok());
  EXPECT_EQ(ResultOf(heap.AddressInFile(*place, 1).status()), WEFT_CORRUPT);
  file.data()[100] = 1;  // still mapped
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

TEST(HeapFiles, PlacesAreNeverUsedAgain) {
  const SharedFile file(PageBytes());
  Heap heap;
  uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(heap.RegisterFile(file.data(), file.bytes(), file.fd(), 0).ok());
    const uint64_t place = *heap.OffsetOf(file.data(), 1);
    EXPECT_GT(place, last);
    last = place;
    ASSERT_TRUE(heap.Deregister(file.data()).ok());
  }
}

TEST(HeapFiles, AndBlocksAreBesideEachOther) {
  const SharedFile file(4 * PageBytes());
  Heap heap;
  ASSERT_TRUE(heap.RegisterFile(file.data(), file.bytes(), file.fd(), 0).ok());
  void* blocks[3];
  for (void*& block : blocks)
    block = *heap.Allocate(PageBytes());
  EXPECT_EQ(ResultOf(heap.Allocate(size_t{1} << 50).status()), WEFT_OUT_OF_MEMORY);
  EXPECT_EQ(ResultOf(heap.Free(file.data())), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(heap.Deregister(file.data()).ok());
  for (void* const block : blocks)
    EXPECT_TRUE(heap.Free(block).ok());
}

TEST(HeapFiles, EndOnlyWhenNothingUsesThem) {
  const SharedFile file(PageBytes());
  Heap heap;
  ASSERT_TRUE(heap.RegisterFile(file.data(), file.bytes(), file.fd(), 0).ok());
  {
    const RegistrationPin pin(heap, file.data() + 9);
    EXPECT_EQ(ResultOf(heap.Deregister(file.data())), WEFT_BAD_STATE);
  }
  EXPECT_TRUE(heap.Deregister(file.data()).ok());
}

TEST(HeapFiles, RefusesWhatPeersCouldNotUse) {
  const size_t page = PageBytes();
  const SharedFile file(4 * page, page);
  const SharedFile other(4 * page, page);
  Heap heap;
  const auto refuses = [&](weft_result_t result, const std::string& needle, void* memory,
                           size_t bytes, int fd, uint64_t offset) {
    const absl::Status status = heap.RegisterFile(memory, bytes, fd, offset);
    EXPECT_EQ(ResultOf(status), result) << needle;
    EXPECT_NE(std::string(status.message()).find(needle), std::string::npos) << status;
  };
  refuses(WEFT_INVALID_ARGUMENT, "there are 1 to", nullptr, page, file.fd(), page);
  refuses(WEFT_INVALID_ARGUMENT, "there are 1 to", file.data(), 0, file.fd(), page);
  refuses(WEFT_INVALID_ARGUMENT, "no descriptor", file.data(), page, 1 << 20, page);
  refuses(WEFT_INVALID_ARGUMENT, "another file", file.data(), page, other.fd(), page);
  refuses(WEFT_INVALID_ARGUMENT, "as was said", file.data(), page, file.fd(), 2 * page);
  refuses(WEFT_INVALID_ARGUMENT, "fewer than", file.data(), 4 * page + 1, file.fd(), page);
  std::vector<char> own(page);
  refuses(WEFT_INVALID_ARGUMENT, "not a shared", own.data(), 64, file.fd(), page);
  const std::string path = "/proc/self/fd/" + std::to_string(file.fd());
  const int reading = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  refuses(WEFT_INVALID_ARGUMENT, "could not write", file.data(), page, reading, page);
  close(reading);
  ASSERT_TRUE(heap.RegisterFile(file.data() + page, page, file.fd(), 2 * page).ok());
  refuses(WEFT_INVALID_ARGUMENT, "registered already", file.data(), 4 * page, file.fd(), page);
  refuses(WEFT_INVALID_ARGUMENT, "registered already", file.data() + 2 * page - 1, 1, file.fd(),
          3 * page - 1);
  EXPECT_TRUE(heap.Deregister(file.data() + page).ok());
}

TEST(HeapFiles, RefusesAFileThatIsSealedAgainstWriting) {
  const SharedFile file(PageBytes(), 0, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fcntl(file.fd(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) GTEST_SKIP() << "older than 5.1";
  Heap heap;
  const absl::Status status = heap.RegisterFile(file.data(), PageBytes(), file.fd(), 0);
  EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT) << status;
}

TEST(HeapFiles, AsManyAsTheTableHas) {
  const size_t page = PageBytes();
  constexpr size_t kRanges = FileRanges::kRangesMax;
  const SharedFile file(page);
  Heap heap;
  // Bytes of one page are ranges of their own; descriptors are the other limit.
  size_t made = 0;
  absl::Status status;
  while (made < page) {
    status = heap.RegisterFile(file.data() + made, 1, file.fd(), made);
    if (!status.ok()) break;
    ++made;
  }
  if (made == page) {
    EXPECT_EQ(made, kRanges);
  } else {
    EXPECT_EQ(ResultOf(status), WEFT_SYSTEM_ERROR) << status;  // RLIMIT_NOFILE
  }
  for (size_t i = 0; i < made; ++i)
    EXPECT_TRUE(heap.Deregister(file.data() + i).ok());
}

// Whatever call fails, the range is the caller's as before, registered or not.
TEST(HeapFiles, SurvivesTheFailureOfAnyCall) {
  const SharedFile file(4 * PageBytes());
  const Holdings before = Holdings::Now();
  int refused = 0;
  for (int k = 1;; ++k) {
    ASSERT_LT(k, 100);
    bool struck = false;
    {
      Heap heap;
      absl::Status registered;
      {
        const FailingCalls failing(k);
        registered = heap.RegisterFile(file.data() + 5, 9000, file.fd(), 5);
        struck = failing.struck();
      }
      if (registered.ok()) {
        EXPECT_TRUE(heap.Deregister(file.data() + 5).ok());
      } else {
        ++refused;
        EXPECT_FALSE(registered.message().empty());
        EXPECT_FALSE(heap.OffsetOf(file.data() + 5, 1).has_value());
      }
    }
    EXPECT_EQ(Holdings::Now().Since(before), "") << "call " << k;
    if (!struck) break;
  }
  EXPECT_GE(refused, 3);
}

TEST(HeapFiles, AForkedChildHasTheMappingAndNoDescriptorOfTheHeap) {
  const SharedFile file(PageBytes());
  file.data()[0] = 5;
  ASSERT_TRUE(ProcessHeap().RegisterFile(file.data(), 64, file.fd(), 0).ok());
  const pid_t child = fork();
  if (child == 0) {
    if (file.data()[0] != 5) _exit(1);
    if (ResultOf(ProcessHeap().Deregister(file.data())) != WEFT_FORKED) _exit(2);
    _exit(42);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_TRUE(ProcessHeap().Deregister(file.data()).ok());
}

}  // namespace
}  // namespace weft::test

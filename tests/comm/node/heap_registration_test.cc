// Memory of the caller's made part of the heap and given back: contents, neighbours, refusals, failures
// of every system call. What collectives make of it: registered_collectives_test.cc.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/status.h"
#include "comm/node/heap.h"
#include "private_pages.h"
#include "tests/support/failing_calls.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

// "rw-p" and the like of the mapping that holds `memory`; "" if none does.
std::string PermissionsAt(const void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    size_t used = 0;
    const uintptr_t begin = std::stoull(line, &used, 16);
    const uintptr_t end = std::stoull(line.substr(used + 1), nullptr, 16);
    if (address >= begin && address < end) return line.substr(line.find(' ') + 1, 4);
  }
  return "";
}

TEST(Registration, KeepsContentsAndNeighboursBothWays) {
  const Holdings before = Holdings::Now();
  const PrivatePages pages(9);
  Heap heap;
  const size_t page = PageBytes();
  ASSERT_TRUE(heap.Register(pages.page(2), 5 * page).ok());
  EXPECT_TRUE(pages.intact());
  EXPECT_EQ(PermissionsAt(pages.page(1)), "rw-p");
  EXPECT_EQ(PermissionsAt(pages.page(2)), "rw-s");
  EXPECT_EQ(PermissionsAt(pages.page(6)), "rw-s");
  EXPECT_EQ(PermissionsAt(pages.page(7)), "rw-p");
  EXPECT_EQ(heap.live_bytes(), 5 * page);
  pages.page(4)[17] ^= 1;  // written through the caller's address
  ASSERT_TRUE(heap.Deregister(pages.page(2)).ok());
  pages.page(4)[17] ^= 1;
  EXPECT_TRUE(pages.intact());
  EXPECT_EQ(PermissionsAt(pages.page(2)), "rw-p");
  EXPECT_EQ(heap.live_bytes(), 0u);
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

TEST(Registration, HasTheSameBytesAtItsPlaceInTheHeap) {
  const PrivatePages pages(4);
  Heap heap;
  const auto held = heap.Retain();
  ASSERT_TRUE(held.ok());
  void* const other = *heap.Allocate(PageBytes());
  ASSERT_TRUE(heap.Register(pages.page(0), pages.bytes()).ok());
  const auto offset = heap.OffsetOf(pages.page(1) + 5, 100);
  ASSERT_TRUE(offset.has_value());
  EXPECT_EQ(std::memcmp(held->base + *offset, pages.page(1) + 5, 100), 0);
  held->base[*offset] = 'x';
  EXPECT_EQ(pages.page(1)[5], 'x');
  ASSERT_TRUE(heap.Deregister(pages.page(0)).ok());
  EXPECT_EQ(pages.page(1)[5], 'x');
  ASSERT_TRUE(heap.Free(other).ok());
  heap.Release();
}

TEST(Registration, OffsetsAreGivenForRangesThatLieWhollyInside) {
  const PrivatePages pages(6);
  Heap heap;
  const size_t page = PageBytes();
  EXPECT_FALSE(heap.OffsetOf(pages.page(0), 1).has_value());
  ASSERT_TRUE(heap.Register(pages.page(1), 2 * page).ok());
  ASSERT_TRUE(heap.Register(pages.page(4), page).ok());
  EXPECT_TRUE(heap.OffsetOf(pages.page(1), 2 * page).has_value());
  EXPECT_TRUE(heap.OffsetOf(pages.page(2) + page - 1, 1).has_value());
  EXPECT_TRUE(heap.OffsetOf(pages.page(4), page).has_value());
  EXPECT_FALSE(heap.OffsetOf(pages.page(1), 2 * page + 1).has_value());
  EXPECT_FALSE(heap.OffsetOf(pages.page(1) - 1, 2).has_value());
  EXPECT_FALSE(heap.OffsetOf(pages.page(3), 1).has_value()) << "between two registrations";
  EXPECT_FALSE(heap.OffsetOf(pages.page(2), SIZE_MAX).has_value());
  auto* const block = static_cast<char*>(*heap.Allocate(page));
  const auto in_heap = heap.OffsetOf(block + 3, 8);
  ASSERT_TRUE(in_heap.has_value());
  EXPECT_EQ(*in_heap, *heap.OffsetOf(block, 1) + 3);
  ASSERT_TRUE(heap.Deregister(pages.page(1)).ok());
  EXPECT_FALSE(heap.OffsetOf(pages.page(1), 1).has_value());
  EXPECT_TRUE(heap.OffsetOf(pages.page(4), 1).has_value());
  ASSERT_TRUE(heap.Deregister(pages.page(4)).ok());
  EXPECT_FALSE(heap.MayBeRegistered(pages.page(4)));
  EXPECT_TRUE(heap.Free(block).ok());
}

TEST(Registration, RefusesWhatIsNotTheCallersToGive) {
  const PrivatePages pages(6);
  Heap heap;
  const size_t page = PageBytes();
  const auto refuses = [&](const void* memory, size_t bytes, const std::string& needle) {
    const absl::Status status = heap.Register(const_cast<void*>(memory), bytes);
    EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT) << needle;
    EXPECT_NE(std::string(status.message()).find(needle), std::string::npos) << status;
  };
  refuses(nullptr, page, "page size");
  refuses(pages.page(0), 0, "page size");
  refuses(pages.page(0) + 64, page, "page size");
  refuses(pages.page(0), page + 64, "page size");
  refuses(pages.page(0), SIZE_MAX - page + 1, "address space");
  ASSERT_TRUE(heap.Register(pages.page(2), 2 * page).ok());
  refuses(pages.page(2), 2 * page, "registered already");
  refuses(pages.page(1), 2 * page, "registered already");
  refuses(pages.page(3), 2 * page, "registered already");
  refuses(pages.page(0), 6 * page, "registered already");
  auto* const block = static_cast<char*>(*heap.Allocate(4 * page));
  refuses(block, page, "own heap");
  ASSERT_EQ(mprotect(pages.page(5), page, PROT_READ), 0);
  refuses(pages.page(4), 2 * page, "not readable and writable");
  ASSERT_EQ(mprotect(pages.page(5), page, PROT_READ | PROT_WRITE), 0);
  char* const shared = static_cast<char*>(
      mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  refuses(shared, page, "is shared");
  munmap(shared, page);
  refuses(shared, page, "not mapped");
  // Not the address of a variable: AddressSanitizer may keep those elsewhere.
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) / page * page;
  refuses(reinterpret_cast<void*>(here), page, "is a stack");
  std::thread([&] {
    const auto own = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) / page * page;
    refuses(reinterpret_cast<void*>(own), page, "is a stack");
    refuses(reinterpret_cast<void*>(own - 8 * page), page, "is a stack");
  }).join();
  EXPECT_EQ(ResultOf(heap.Deregister(pages.page(3))), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(heap.Free(pages.page(2))), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(heap.Free(block).ok());
  EXPECT_TRUE(heap.Deregister(pages.page(2)).ok());
  EXPECT_EQ(ResultOf(heap.Deregister(pages.page(2))), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(pages.intact());
  EXPECT_EQ(heap.live_bytes(), 0u);
}

TEST(Registration, EndsOnlyWhenNothingUsesIt) {
  const PrivatePages pages(3);
  Heap heap;
  ASSERT_TRUE(heap.Register(pages.page(0), pages.bytes()).ok());
  heap.Pin(pages.page(2) + 9);
  {
    const RegistrationPin pin(heap, pages.page(1));
    EXPECT_EQ(ResultOf(heap.Deregister(pages.page(0))), WEFT_BAD_STATE);
  }
  EXPECT_EQ(ResultOf(heap.Deregister(pages.page(0))), WEFT_BAD_STATE);
  heap.Unpin(pages.page(2) + 9);
  EXPECT_TRUE(heap.Deregister(pages.page(0)).ok());
  EXPECT_TRUE(pages.intact());
}

TEST(Registration, QuarantineKeepsThePagesAndGivesTheCallerACopy) {
  const PrivatePages pages(3);
  Heap heap;
  const auto held = heap.Retain();
  ASSERT_TRUE(held.ok());
  ASSERT_TRUE(heap.Register(pages.page(0), pages.bytes()).ok());
  char* const alias = held->base + *heap.OffsetOf(pages.page(0), 1);
  heap.Quarantine(pages.page(1));
  ASSERT_TRUE(heap.Deregister(pages.page(0)).ok());
  EXPECT_TRUE(pages.intact());
  std::memset(alias, 0, pages.bytes());  // a peer that woke up
  EXPECT_TRUE(pages.intact());
  EXPECT_EQ(heap.live_bytes(), pages.bytes());
  EXPECT_NE(*heap.Allocate(pages.bytes()), alias);
  EXPECT_TRUE(heap.Register(pages.page(0), pages.bytes()).ok()) << "the range is ordinary again";
  EXPECT_TRUE(heap.Deregister(pages.page(0)).ok());
}

// Big blocks of malloc are mappings of their own, smaller ones lie on the heap between others.
TEST(Registration, TakesMemoryFromMalloc) {
  const Holdings before = Holdings::Now();
  Heap heap;
  for (const size_t pages : {3UL, 30UL, 1000UL}) {
    const size_t bytes = pages * PageBytes();
    auto* const memory = static_cast<char*>(std::aligned_alloc(PageBytes(), bytes));
    std::memset(memory, 7, bytes);
    ASSERT_TRUE(heap.Register(memory, bytes).ok());
    memory[bytes - 1] = 8;
    ASSERT_TRUE(heap.Deregister(memory).ok());
    EXPECT_EQ(memory[0], 7);
    EXPECT_EQ(memory[bytes - 1], 8);
    std::free(memory);
  }
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

TEST(Registration, AThousandTimesLeavesNothing) {
  const PrivatePages pages(4);
  Heap heap;
  ASSERT_TRUE(heap.Retain().ok());
  const Holdings before = Holdings::Now();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(heap.Register(pages.page(static_cast<size_t>(i) % 3), 2 * PageBytes()).ok());
    ASSERT_TRUE(heap.Deregister(pages.page(static_cast<size_t>(i) % 3)).ok());
  }
  EXPECT_EQ(heap.live_bytes(), 0u);
  EXPECT_TRUE(pages.intact());
  EXPECT_EQ(Holdings::Now().Since(before), "");
  heap.Release();
}

TEST(Registration, ManyThreadsMayRegister) {
  const PrivatePages pages(32);
  Heap heap;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(heap.Register(pages.page(4 * t), 4 * PageBytes()).ok());
        EXPECT_TRUE(heap.OffsetOf(pages.page(4 * t + 3), 10).has_value());
        EXPECT_TRUE(heap.Deregister(pages.page(4 * t)).ok());
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_TRUE(pages.intact());
  EXPECT_EQ(heap.live_bytes(), 0u);
}

// Whatever call fails, the range is as before or registered, and its contents are there.
TEST(Registration, SurvivesTheFailureOfAnyCall) {
  const Holdings before = Holdings::Now();
  const PrivatePages pages(4);
  int refused_registrations = 0;
  int refused_deregistrations = 0;
  for (int k = 1;; ++k) {
    ASSERT_LT(k, 100);
    Heap heap;
    const size_t page = PageBytes();
    bool struck = false;
    absl::Status registered;
    absl::Status deregistered;
    {
      const FailingCalls failing(k);
      registered = heap.Register(pages.page(1), 2 * page);
      if (registered.ok()) deregistered = heap.Deregister(pages.page(1));
      struck = failing.struck();
    }
    EXPECT_TRUE(pages.intact()) << "call " << k;
    if (!registered.ok()) {
      ++refused_registrations;
      EXPECT_FALSE(registered.message().empty());
      EXPECT_EQ(PermissionsAt(pages.page(1)), "rw-p");
    } else if (!deregistered.ok()) {
      ++refused_deregistrations;
      EXPECT_EQ(PermissionsAt(pages.page(1)), "rw-s");
      EXPECT_TRUE(heap.OffsetOf(pages.page(1), 2 * page).has_value());
      EXPECT_TRUE(heap.Deregister(pages.page(1)).ok());
    }
    EXPECT_EQ(PermissionsAt(pages.page(1)), "rw-p");
    EXPECT_EQ(heap.live_bytes(), 0u) << "call " << k;
    EXPECT_EQ(Holdings::Now().Since(before), "") << "call " << k;
    if (!struck) break;
  }
  EXPECT_GE(refused_registrations, 5);
  EXPECT_GE(refused_deregistrations, 1);
}

TEST(Registration, AForkedChildDoesNotHaveTheRange) {
  const PrivatePages pages(3);
  Heap heap;
  ASSERT_TRUE(heap.Register(pages.page(1), PageBytes()).ok());
  const pid_t child = fork();
  if (child == 0) {
    if (!PermissionsAt(pages.page(1)).empty()) _exit(1);
    if (PermissionsAt(pages.page(0)) != "rw-p") _exit(2);
    if (ResultOf(heap.Deregister(pages.page(1))) != WEFT_FORKED) _exit(3);
    if (ResultOf(heap.Register(pages.page(0), PageBytes())) != WEFT_FORKED) _exit(4);
    if (ResultOf(heap.Allocate(1).status()) != WEFT_FORKED) _exit(5);
    _exit(42);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_TRUE(pages.intact());
  EXPECT_TRUE(heap.Deregister(pages.page(1)).ok());
  EXPECT_TRUE(pages.intact());
}

}  // namespace
}  // namespace weft::test

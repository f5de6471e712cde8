// The allocator is the process's and cannot be changed once used, so each test has a process of its own.
#include "base/allocator.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/support/forked_ranks.h"

namespace weft::test {
namespace {

// Counts what it gives and expects it back as it was.
struct Counting {
  std::map<void*, size_t> live;
  int allocations = 0;
  int strange_releases = 0;
  int failing_from = INT32_MAX;  // allocation from which there is no memory
  size_t shift = 0;              // added to every address

  weft_allocator_t Table() {
    weft_allocator_t table = {};
    table.struct_size = sizeof(table);
    table.user = this;
    table.allocate = [](size_t bytes, size_t alignment, void* user) -> void* {
      auto& self = *static_cast<Counting*>(user);
      if (++self.allocations >= self.failing_from) return nullptr;
      const size_t rounded = (bytes + self.shift + alignment - 1) / alignment * alignment;
      char* const memory = static_cast<char*>(std::aligned_alloc(alignment, rounded)) + self.shift;
      self.live[memory] = bytes;
      return memory;
    };
    table.release = [](void* memory, size_t bytes, void* user) {
      auto& self = *static_cast<Counting*>(user);
      const auto found = self.live.find(memory);
      if (found == self.live.end() || found->second != bytes) ++self.strange_releases;
      if (found == self.live.end()) return;
      self.live.erase(found);
      std::free(static_cast<char*>(memory) - self.shift);
    };
    return table;
  }
};

void InAProcess(const std::function<std::string()>& body) {
  const auto ends = RunForkedRanks(1, 30, [&](int) { return body(); });
  EXPECT_EQ(ends[0].Problem(), "");
}

TEST(Allocator, GivesWhatTheProgramsAllocatorGivesAndReturnsAll) {
  InAProcess([]() -> std::string {
    Counting counting;
    const weft_allocator_t table = counting.Table();
    if (!SetAllocator(&table).ok()) return "was not set";
    {
      std::vector<PrivateMemory> memories;
      for (const size_t alignment : {16UL, 64UL, 4096UL}) {
        auto memory = PrivateMemory::Allocate(1000 + alignment, alignment, "a test");
        if (!memory.ok()) return std::string(memory.status().message());
        if (reinterpret_cast<uintptr_t>(memory->data()) % alignment != 0) return "misaligned";
        std::memset(memory->data(), 1, memory->bytes());
        memories.push_back(*std::move(memory));
      }
      if (counting.live.size() != 3) return "it did not ask the allocator";
      PrivateMemory moved = std::move(memories[0]);
      moved = std::move(memories[1]);
      auto empty = PrivateMemory::Allocate(0, 64, "nothing");
      if (!empty.ok() || empty->data() != nullptr || counting.allocations != 3) return "0 bytes";
    }
    if (!counting.live.empty()) return "not everything was returned";
    return counting.strange_releases == 0 ? "" : "released what it did not get";
  });
}

TEST(Allocator, IsFixedByItsFirstUse) {
  InAProcess([]() -> std::string {
    Counting counting;
    const weft_allocator_t table = counting.Table();
    if (!SetAllocator(&table).ok() || !SetAllocator(nullptr).ok()) return "was not set";
    if (!PrivateMemory::Allocate(10, 16, "a test").ok()) return "no memory";
    if (counting.allocations != 0) return "NULL is not operator new";
    return ResultOf(SetAllocator(&table)) == WEFT_BAD_STATE ? "" : "could be changed";
  });
}

TEST(Allocator, NoMemoryIsAnErrorThatSaysWhatFor) {
  InAProcess([]() -> std::string {
    Counting counting;
    counting.failing_from = 2;
    const weft_allocator_t table = counting.Table();
    if (!SetAllocator(&table).ok()) return "was not set";
    const auto kept = PrivateMemory::Allocate(100, 16, "what stays");
    const absl::Status none = PrivateMemory::Allocate(2048, 16, "a message").status();
    if (ResultOf(none) != WEFT_OUT_OF_MEMORY) return "not out of memory";
    std::string sentence(none.message());
    if (sentence.find("2.0 KiB") == std::string::npos) return sentence;
    if (sentence.find("for a message") == std::string::npos) return sentence;
    return counting.live.size() == 1 ? "" : "the other memory was lost";
  });
}

TEST(Allocator, SizesThatNoAddressSpaceHasAreErrors) {
  InAProcess([]() -> std::string {
    for (const size_t bytes : {SIZE_MAX, size_t{PTRDIFF_MAX} + 1}) {
      const absl::Status none = PrivateMemory::Allocate(bytes, 64, "too much").status();
      if (ResultOf(none) != WEFT_OUT_OF_MEMORY) return std::string(none.message());
    }
    return "";
  });
}

TEST(Allocator, WrongAlignmentIsAnErrorAndTheMemoryGoesBack) {
  InAProcess([]() -> std::string {
    Counting counting;
    counting.shift = 8;
    const weft_allocator_t table = counting.Table();
    if (!SetAllocator(&table).ok()) return "was not set";
    const absl::Status status = PrivateMemory::Allocate(100, 64, "a test").status();
    if (ResultOf(status) != WEFT_INVALID_USAGE) return std::string(status.message());
    return counting.live.empty() ? "" : "kept";
  });
}

}  // namespace
}  // namespace weft::test

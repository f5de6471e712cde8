// Groups where the machine sets limits: core dumps, addresses, memory of control groups. Every process that weft is
// used in is a forked child: limits and options are those of its beginning.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "comm/node/heap.h"
#include "rank_processes.h"

namespace weft::test::limits_test {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

// An environment variable and a soft limit for what is forked while this lives.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }

  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

  ~Setting() { unsetenv(name_); }

 private:
  const char* const name_;
};

class SoftLimit {
 public:
  SoftLimit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    EXPECT_EQ(getrlimit(resource, &before_), 0);
    const rlimit limit = {std::min(value, before_.rlim_max), before_.rlim_max};
    EXPECT_EQ(setrlimit(resource, &limit), 0);
  }

  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;

  ~SoftLimit() { setrlimit(resource_, &before_); }

 private:
  const __rlimit_resource resource_;
  rlimit before_ = {};
};

std::string Barrier(ProcessGroup& group) {
  const absl::Status status = group.Run({.kind = OpKind::kBarrier});
  return status.ok() ? "" : std::string(status.message());
}

// How many mappings of heaps there are, and how many of them a core dump would hold.
struct HeapMappings {
  int all = 0;
  int dumped = 0;

  static HeapMappings Read() {
    HeapMappings found;
    bool heap = false;
    std::ifstream smaps("/proc/self/smaps");
    for (std::string line; std::getline(smaps, line);) {
      const size_t colon = line.find(':');
      const bool header = line.find('-') < colon && line.find(' ') < colon;
      if (header) heap = line.find("memfd:weft-heap") != std::string::npos;
      if (!heap || line.rfind("VmFlags:", 0) != 0) continue;
      ++found.all;
      if ((line + ' ').find(" dd ") == std::string::npos) ++found.dumped;
    }
    return found;
  }
};

TEST(NodeLimits, NoHeapIsInACoreDump) {
  const Setting small("WEFT_HEAP_BYTES", "64M");
  RunProcessRanks(3, [](ProcessGroup& group) -> std::string {
    const HeapMappings found = HeapMappings::Read();
    if (found.all != 3) return std::to_string(found.all) + " heaps are mapped";
    if (found.dumped != 0) return std::to_string(found.dumped) + " heaps would be dumped";
    return Barrier(group);
  });
}

TEST(NodeLimits, ABlockIsInACoreDumpIfItsOwnerSaysSoUntilItIsFreed) {
  const Setting small("WEFT_HEAP_BYTES", "64M");
  RunProcessRanks(1, [](ProcessGroup&) -> std::string {
    void* const block = *ProcessHeap().Allocate(kMiB);
    if (madvise(block, kMiB, MADV_DODUMP) != 0) return "madvise failed";
    if (HeapMappings::Read().dumped != 1) return "the block would not be dumped";
    if (!ProcessHeap().Free(block).ok()) return "freeing failed";
    return HeapMappings::Read().dumped == 0 ? "" : "what was a block would be dumped";
  });
}

#ifndef WEFT_SANITIZE  // which has crashes, and addresses, of its own

size_t PresentInOwnHeap() {
  struct stat info = {};
  const auto heap = ProcessHeap().Retain();
  const bool known = heap.ok() && fstat(heap->fd, &info) == 0;
  ProcessHeap().Release();
  return known ? static_cast<size_t>(info.st_blocks) * 512 : SIZE_MAX;
}

TEST(NodeLimits, TheCrashOfARankTakesNoMemoryOfItsPeers) {
  const Setting small("WEFT_HEAP_BYTES", "64M");
  const SoftLimit dumps(RLIMIT_CORE, RLIM_INFINITY);
  const TemporaryDirectory directory;
  RunProcessRanks(3,
                  [&](ProcessGroup& group) -> std::string {
                    const size_t before = PresentInOwnHeap();
                    if (const std::string problem = Barrier(group); !problem.empty())
                      return problem;
                    if (group.rank() == 1) {
                      if (chdir(directory.path().c_str()) != 0) return "no place for a core dump";
                      std::abort();
                    }
                    const absl::Status lost = group.Run({.kind = OpKind::kBarrier});
                    if (ResultOf(lost) != WEFT_PEER_LOST) return lost.ToString();
                    const size_t grown = PresentInOwnHeap() - before;
                    return grown <= kMiB
                               ? ""
                               : "the dump took " + std::to_string(grown) + " bytes of this heap";
                  },
                  {1});
}

std::string logged;

void KeepLog(weft_log_level_t, const char* message, void*) {
  logged += std::string(message) + "\n";
}

TEST(NodeLimits, HeapsOfAllRanksShareFewAddressesAndSaySo) {
  SetLogCallback(KeepLog, nullptr);
  const SoftLimit addresses(RLIMIT_AS, 1500 * kMiB);
  RunProcessRanks(9, [](ProcessGroup& group) -> std::string {
    if (logged.find("of addresses instead of") == std::string::npos ||
        logged.find("ulimit -v") == std::string::npos) {
      return "logged: " + logged;
    }
    const auto block = ProcessHeap().Allocate(8 * kMiB);
    if (!block.ok()) return block.status().ToString();
    const absl::Status freed = ProcessHeap().Free(*block);
    return freed.ok() ? Barrier(group) : freed.ToString();
  });
  SetLogCallback(nullptr, nullptr);
}

#endif

class LimitedHeap : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = directory_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  const TemporaryDirectory directory_;
};

TEST_F(LimitedHeap, RefusesWhatItsControlGroupWouldKillFor) {
  Write("proc/self/cgroup", "0::/job\n");
  Write("sys/fs/cgroup/job/memory.max", std::to_string(40 * kMiB));
  Write("sys/fs/cgroup/job/memory.current", std::to_string(10 * kMiB));
  Heap heap(directory_.path());
  const absl::Status refused = heap.Allocate(64 * kMiB).status();
  EXPECT_EQ(ResultOf(refused), WEFT_OUT_OF_MEMORY);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("allocating 64.0 MiB of shared memory"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("sys/fs/cgroup/job is 40.0 MiB"));
  EXPECT_EQ(heap.live_bytes(), 0u);
  const auto block = heap.Allocate(20 * kMiB);
  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_TRUE(heap.Free(*block).ok());
}

}  // namespace
}  // namespace weft::test::limits_test

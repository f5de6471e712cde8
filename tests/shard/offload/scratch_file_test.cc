// Files that are really there, by every queue: what is written is read, what cannot be made is said, and nothing is left.
#include "shard/offload/scratch_file.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "shard/offload/load_uring.h"
#include "tests/shard/offload/aligned_memory.h"
#include "tests/shard/offload/random_transfers.h"
#include "tests/support/in_child.h"
#include "tests/support/leak_check.h"
#include "tests/support/refused_calls.h"

namespace weft::test {
namespace {

constexpr size_t kUnit = BlockStore::kAlignment;
constexpr int64_t kTimeoutNs = 60'000'000'000;

class Directory {
 public:
  Directory() : path_(::testing::TempDir() + "/weft_offload_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) path_.clear();
  }

  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  ~Directory() {
    EXPECT_TRUE(std::filesystem::is_empty(path_)) << "something was left in " << path_;
    std::filesystem::remove_all(path_);
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What all tests of queues are run with.
struct Way {
  OffloadIo io = OffloadIo::kThreads;
  bool direct = true;
};

class ScratchFileTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (GetParam().io == OffloadIo::kUring && !LoadUringModule().ok())
      GTEST_SKIP() << "built without io_uring";
    before_ = Holdings::Now();
  }

  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_EQ(Holdings::Now().Since(before_), "");
  }

  ScratchFile::Config ConfigOf(const std::string& directory, size_t units) const {
    return {.directory = directory,
            .bytes = units * kUnit,
            .io = GetParam().io,
            .timeout_ns = kTimeoutNs,
            .direct = GetParam().direct};
  }

  Holdings before_;
  Directory directory_;
};

std::string WayName(const ::testing::TestParamInfo<Way>& info) {
  return StrCat(info.param.io == OffloadIo::kUring ? "Uring" : "Threads",
                info.param.direct ? "Direct" : "Cached");
}

INSTANTIATE_TEST_SUITE_P(AllWays, ScratchFileTest,
                         ::testing::Values(Way{OffloadIo::kThreads, true},
                                           Way{OffloadIo::kThreads, false},
                                           Way{OffloadIo::kUring, true},
                                           Way{OffloadIo::kUring, false}),
                         WayName);

std::vector<AlignedMemory> MakeSlots() {
  std::vector<AlignedMemory> slots;
  for (const size_t units : {17, 300, 1, 64, 700})
    slots.emplace_back(units * kUnit);
  return slots;
}

std::vector<std::span<std::byte>> SpansOf(const std::vector<AlignedMemory>& slots, size_t count) {
  std::vector<std::span<std::byte>> spans;
  for (size_t i = 0; i < count; ++i)
    spans.push_back(slots[i].span());
  return spans;
}

TEST_P(ScratchFileTest, WhatWasWrittenIsRead) {
  const uint64_t seed = TestSeed(1);
  SCOPED_TRACE(StrCat("seed ", seed));
  const std::vector<AlignedMemory> slots = MakeSlots();
  // Of some slots the kernel knows beforehand.
  for (const size_t registered : {size_t{0}, size_t{3}, slots.size()}) {
    const auto spans = SpansOf(slots, registered);
    ScratchFile::Config config = ConfigOf(directory_.path(), 1777);
    config.buffers = spans;
    config.block_bytes = 37 * kUnit;
    const auto file = ScratchFile::Create(config);
    ASSERT_TRUE(file.ok()) << file.status();
    RandomTransfers(**file, config.bytes, slots, seed + registered).Run(150);
  }
}

// Who starts a transfer need not be there when it ends: a step's thread may have ended, or the one that wrote a checkpoint.
TEST_P(ScratchFileTest, ATransferOutlivesTheThreadThatStartedIt) {
  constexpr size_t kUnits = 4096;  // 16 MiB
  for (int round = 0; round < 10; ++round) {
    AlignedMemory memory(kUnits * kUnit);
    std::memset(memory.span().data(), round + 1, kUnits * kUnit);
    ScratchFile::Config config = ConfigOf(directory_.path(), kUnits);
    config.block_bytes = 16 * kUnit;
    const auto file = ScratchFile::Create(config);
    ASSERT_TRUE(file.ok()) << file.status();
    BlockStore::Ticket ticket = 0;
    std::thread starts(
        [&] { ticket = (*file)->StartWrite(0, memory.span().data(), kUnits * kUnit); });
    starts.join();
    ASSERT_EQ((*file)->Wait(ticket), absl::OkStatus()) << "round " << round;
    std::thread reads(
        [&] { ticket = (*file)->StartRead(0, memory.span().data(), kUnits * kUnit); });
    reads.join();
    ASSERT_EQ((*file)->Wait(ticket), absl::OkStatus()) << "round " << round;
  }
}

TEST_P(ScratchFileTest, FilesKnowNothingOfEachOther) {
  const uint64_t seed = TestSeed(2);
  SCOPED_TRACE(StrCat("seed ", seed));
  // Threads of one process, as ranks may be.
  std::vector<std::thread> ranks;
  for (uint64_t rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([this, rank, seed] {
      const std::vector<AlignedMemory> slots = MakeSlots();
      const auto spans = SpansOf(slots, slots.size());
      ScratchFile::Config config = ConfigOf(directory_.path(), 901 + rank);
      config.buffers = spans;
      const auto file = ScratchFile::Create(config);
      ASSERT_TRUE(file.ok()) << file.status();
      RandomTransfers(**file, config.bytes, slots, seed + rank).Run(60);
    });
  }
  for (std::thread& rank : ranks)
    rank.join();
}

TEST_P(ScratchFileTest, AnotherThreadMayGoOn) {
  const AlignedMemory memory(64 * kUnit);
  const auto file = ScratchFile::Create(ConfigOf(directory_.path(), 128));
  ASSERT_TRUE(file.ok()) << file.status();
  std::memset(memory.data(), 7, memory.size());
  BlockStore::Ticket ticket = 0;
  std::thread([&] { ticket = (*file)->StartWrite(0, memory.data(), memory.size()); }).join();
  EXPECT_EQ((*file)->Wait(ticket), absl::OkStatus());
  std::thread([&] {
    std::memset(memory.data(), 0, memory.size());
    ticket = (*file)->StartRead(0, memory.data(), memory.size());
  }).join();
  EXPECT_EQ((*file)->Wait(ticket), absl::OkStatus());
  EXPECT_EQ(memory.data()[12345], std::byte{7});
}

TEST_P(ScratchFileTest, SaysHowItGoes) {
  const AlignedMemory memory(kUnit);
  const std::vector<std::span<std::byte>> buffers = {memory.span()};
  ScratchFile::Config config = ConfigOf(directory_.path(), 1);
  config.buffers = buffers;
  const auto file = ScratchFile::Create(config);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string how((*file)->how());
  EXPECT_EQ(how.find(GetParam().io == OffloadIo::kUring ? "io_uring" : "4 threads"), 0U) << how;
  if (GetParam().direct) return;  // which the file system may not have
  EXPECT_NE(how.find(", page cache"), std::string::npos) << how;
}

TEST(ScratchFile, ThreadsGoThroughThePageCacheUnlessIoUringWasAskedFor) {
  const Directory directory;
  const auto file = ScratchFile::Create(
      {.directory = directory.path(), .bytes = kUnit, .io = OffloadIo::kAuto, .direct = false});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->how(), "4 threads, page cache");
}

TEST_P(ScratchFileTest, ADirectoryThatIsNotThereIsNamed) {
  const auto file = ScratchFile::Create(ConfigOf(directory_.path() + "/none", 4));
  EXPECT_TRUE(absl::IsNotFound(file.status())) << file.status();
  EXPECT_NE(std::string(file.status().message()).find(directory_.path() + "/none"),
            std::string::npos)
      << file.status();
}

TEST_P(ScratchFileTest, AFileThatTheLimitDoesNotAllowIsAnErrorAndNoSignal) {
  const std::string said = InChild([this] {
    const rlimit limit = {1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string("no limit");
    const auto file = ScratchFile::Create(ConfigOf(directory_.path(), 512));
    return std::string(file.status().message());
  });
  EXPECT_EQ(
      said.find(StrCat("reserving 2.0 MiB (2097152 bytes) for offloaded state in ",
                       directory_.path(), ", where files may have 1048576 bytes: File too large")),
      0U)
      << said;
}

TEST_P(ScratchFileTest, ALimitThatComesLaterIsAnErrorAndNoSignal) {
  const std::string said = InChild([this] {
    const AlignedMemory memory(512 * kUnit);
    const auto file = ScratchFile::Create(ConfigOf(directory_.path(), 512));
    if (!file.ok()) return file.status().ToString();
    const rlimit limit = {1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string("no limit");
    return std::string(
        (*file)->Wait((*file)->StartWrite(0, memory.data(), memory.size())).message());
  });
  EXPECT_NE(said.find("File too large"), std::string::npos) << said;
}

// In a child: a file on a file system in memory, of `file_system_bytes`. Empty, or what went wrong; "-" where it cannot be tried.
template <typename Before>
std::string OnTmpfs(const ScratchFile::Config& config, size_t file_system_bytes, Before before) {
  return InChild([&] {
    if (!EnterOwnMounts()) return std::string("-");
    const std::string size = StrCat("size=", file_system_bytes);
    if (mount("none", config.directory.c_str(), "tmpfs", 0, size.c_str()) != 0)
      return std::string("-");
    std::string wrong = before();
    if (!wrong.empty()) return wrong;
    const auto file = ScratchFile::Create(config);
    if (!file.ok()) return std::string(file.status().message());
    const std::vector<AlignedMemory> slots = MakeSlots();
    RandomTransfers(**file, config.bytes, slots, 1).Run(50);
    return std::string(::testing::Test::HasFailure() ? "transfers failed" : "");
  });
}

TEST_P(ScratchFileTest, AFileSystemInMemoryWillDo) {
  const std::string said =
      OnTmpfs(ConfigOf(directory_.path(), 1000), 16 << 20, [] { return std::string(); });
  if (said == "-") GTEST_SKIP() << "no mounts";
  EXPECT_EQ(said, "");
}

TEST_P(ScratchFileTest, AFileSystemThatIsTooSmallIsFoundAtOnce) {
  for (const bool reserves : {true, false}) {
    const std::string said = OnTmpfs(ConfigOf(directory_.path(), 1024), 1 << 20, [reserves] {
      return reserves ? std::string() : RefuseCalls({SYS_fallocate}, EOPNOTSUPP);
    });
    if (said == "-") GTEST_SKIP() << "no mounts";
    EXPECT_NE(said.find(StrCat("reserving 4.0 MiB (4194304 bytes) for offloaded state in ",
                               directory_.path(), ", where 1048576 bytes are free: No space left")),
              std::string::npos)
        << said;
  }
}

TEST_P(ScratchFileTest, WhatFileSystemsMayLackIsDoneWithout) {
  // Room that is reserved; files without a name; transfers past the page cache.
  constexpr uint32_t kBelowTmpfile = 0x3f'ffff;
  const auto lacks = [](int what) {
    if (what == 0) return RefuseCalls({SYS_fallocate}, EOPNOTSUPP);
    if (what == 1) return RefuseCallsAbove(SYS_openat, 2, kBelowTmpfile, EOPNOTSUPP);
    return RefuseCallsWith(SYS_fcntl, 1, F_SETFL, EINVAL);
  };
  for (const int what : {0, 1, 2}) {
    const std::string said = InChild([&] {
      std::string wrong = lacks(what);
      if (!wrong.empty()) return wrong;
      const auto file = ScratchFile::Create(ConfigOf(directory_.path(), 1000));
      if (!file.ok()) return file.status().ToString();
      if (what == 2 && (*file)->how().find("page cache") == std::string_view::npos)
        return std::string((*file)->how());
      RandomTransfers(**file, 1000 * kUnit, MakeSlots(), 1).Run(50);
      return std::string(::testing::Test::HasFailure() ? "transfers failed" : "");
    });
    EXPECT_EQ(said, "") << what;
  }
}

TEST_P(ScratchFileTest, WithoutPermissionNothingIsMade) {
  ASSERT_EQ(chmod(directory_.path().c_str(), 0555), 0);
  const std::string said = InChild([this] {
    constexpr uid_t kNobody = 65534;
    if (getuid() == 0 && setuid(kNobody) != 0) return std::string("no other user");
    const auto file = ScratchFile::Create(ConfigOf(directory_.path(), 4));
    return std::string(file.status().message());
  });
  EXPECT_NE(said.find("Permission denied; choose another directory"), std::string::npos) << said;
}

TEST_P(ScratchFileTest, AForkedChildEndsAndTheParentGoesOn) {
  const std::vector<AlignedMemory> slots = MakeSlots();
  const auto spans = SpansOf(slots, slots.size());
  ScratchFile::Config config = ConfigOf(directory_.path(), 900);
  config.buffers = spans;
  auto file = ScratchFile::Create(config);
  ASSERT_TRUE(file.ok()) << file.status();
  const BlockStore::Ticket ticket = (*file)->StartWrite(0, slots[4].data(), slots[4].size());
  const std::string said = InChild([&] {
    const absl::Status status = (*file)->Wait(ticket);
    file->reset();
    return weft::ResultOf(status) == WEFT_FORKED ? std::string() : status.ToString();
  });
  EXPECT_EQ(said, "");
  EXPECT_EQ((*file)->Wait(ticket), absl::OkStatus());
}

}  // namespace
}  // namespace weft::test

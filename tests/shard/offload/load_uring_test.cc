// io_uring that cannot be had: threads in its place, said once, or an error where it was asked for.
#include "shard/offload/load_uring.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/offload/scratch_file.h"
#include "tests/support/in_child.h"
#include "tests/support/refused_calls.h"

namespace weft::test {
namespace {

constexpr uint64_t kBytes = 64 * BlockStore::kAlignment;
constexpr int64_t kWaitNs = 60'000'000'000;

std::string RefusalOf(const std::string& file) {
  const auto module = LoadUringModuleFrom(file);
  if (module.ok()) return "it was loaded";
  EXPECT_EQ(weft::ResultOf(module.status()), WEFT_UNSUPPORTED);
  return std::string(module.status().message());
}

TEST(LoadUring, AModuleThatIsMissingIsNamed) {
  const std::string said = RefusalOf("/proc/none/libweft_uring.so");
  EXPECT_NE(
      said.find("io_uring cannot be used: the module /proc/none/libweft_uring.so could not be "
                "loaded"),
      std::string::npos)
      << said;
}

TEST(LoadUring, AModuleOfAnotherVersionIsRefused) {
  const std::string said = RefusalOf(WEFT_TEST_OTHER_VERSION);
  EXPECT_NE(said.find("is of another build of weft: its version is 4711, and 1 is needed"),
            std::string::npos)
      << said;
}

void NoteWarning(weft_log_level_t level, const char* message, void* user) {
  if (level == WEFT_LOG_WARN) static_cast<std::string*>(user)->append(message).append("\n");
}

struct Made {
  std::string how;  // or why not
  std::string warnings;
};

// Of several files in turn, in this process.
Made MakeFiles(OffloadIo io) {
  Made made;
  SetLogCallback(NoteWarning, &made.warnings);
  for (int i = 0; i < 3; ++i) {
    const auto file =
        ScratchFile::Create({.directory = ::testing::TempDir(), .bytes = kBytes, .io = io});
    made.how = file.ok() ? std::string((*file)->how()) : file.status().ToString();
  }
  SetLogCallback(nullptr, nullptr);
  return made;
}

// `number` is refused, and three files are made.
std::string Refused(int number, int error_number, OffloadIo io) {
  return InChild([=] {
    std::string filter = RefuseCalls({number}, error_number);
    if (!filter.empty()) return filter;
    const Made made = MakeFiles(io);
    return StrCat(made.how, "\n", made.warnings);
  });
}

bool HasModule() {
  return LoadUringModule().ok();
}

TEST(LoadUring, WhereTheKernelRefusesItThreadsAreUsedAndThatIsSaidOnce) {
  for (const int error_number : {EPERM, ENOSYS}) {
    const std::string said = Refused(SYS_io_uring_setup, error_number, OffloadIo::kAuto);
    EXPECT_EQ(said.find("4 threads"), 0U) << said;
    const size_t first =
        said.find("offloaded state is read and written by threads: io_uring cannot be used: ");
    ASSERT_NE(first, std::string::npos) << said;
    EXPECT_EQ(said.find("offloaded state", first + 1), std::string::npos) << said;
    EXPECT_EQ(said.find("io_uring_setup") != std::string::npos, HasModule()) << said;
  }
}

TEST(LoadUring, WhereItWasAskedForItsAbsenceIsAnError) {
  const std::string said = Refused(SYS_io_uring_setup, EPERM, OffloadIo::kUring);
  EXPECT_NE(said.find("WEFT_OFFLOAD_IO=uring, but io_uring cannot be used: "), std::string::npos)
      << said;
}

TEST(LoadUring, ThreadsThatWereAskedForAreNoWarning) {
  const std::string said = Refused(SYS_io_uring_setup, EPERM, OffloadIo::kThreads);
  EXPECT_EQ(said.find("4 threads"), 0U) << said;
  EXPECT_EQ(said.find("offloaded state"), std::string::npos) << said;
}

TEST(LoadUring, AKernelThatTakesNoBuffersIsUsedWithoutThem) {
  if (!HasModule()) GTEST_SKIP() << "built without io_uring";
  const std::string said = Refused(SYS_io_uring_register, ENOMEM, OffloadIo::kUring);
  EXPECT_EQ(said.find("io_uring, "), 0U) << said;
  EXPECT_EQ(said.find("registered"), std::string::npos) << said;
}

// Opens a ring, reads a block by it and closes it again; how many bytes were read, or -1 without a ring.
int64_t ReadByRing(const UringModule& uring, int file) {
  UringReason why = {};
  const UringOpening opening = {.file = file, .depth = 4, .buffers = nullptr, .buffer_count = 0};
  UringRing* const ring = uring.open(&opening, &why);
  if (ring == nullptr) return -1;
  std::vector<char> block(BlockStore::kAlignment);
  const UringRequest request = {.writes = false,
                                .bytes = static_cast<uint32_t>(block.size()),
                                .offset = 0,
                                .memory = block.data(),
                                .buffer = -1,
                                .tag = 1};
  UringEnd end = {};
  if (uring.start(ring, &request) && uring.submit(ring) == 1 && uring.wait(ring, kWaitNs) >= 0)
    uring.take(ring, &end, 1);
  uring.close(ring);
  return end.moved;
}

// The kernel maps each ring where the one before was. That is no race, and ThreadSanitizer, which does not see it, is told.
TEST(LoadUring, ThreadsHaveRingsOneAfterAnother) {
  const auto uring = LoadUringModule();
  if (!uring.ok()) GTEST_SKIP() << "built without io_uring";
  const int file = memfd_create("blocks", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(ftruncate(file, kBytes), 0);
  if (ReadByRing(**uring, file) < 0) GTEST_SKIP() << "no io_uring here";
  std::atomic<int> turn =
      0;  // relaxed: puts the threads in turns, and tells ThreadSanitizer nothing
  const auto take_turns = [&](int own) {
    for (int round = 0; round < 20; ++round) {
      while (turn.load(std::memory_order_relaxed) % 2 != own)
        std::this_thread::yield();
      EXPECT_EQ(ReadByRing(**uring, file), static_cast<int64_t>(BlockStore::kAlignment));
      turn.fetch_add(1, std::memory_order_relaxed);
    }
  };
  std::thread other(take_turns, 0);
  take_turns(1);
  other.join();
  close(file);
}

}  // namespace
}  // namespace weft::test

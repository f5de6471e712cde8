// io_uring that cannot be had: threads in its place, said once, or an error where it was asked for.
#include "shard/offload/load_uring.h"

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/offload/scratch_file.h"
#include "tests/support/in_child.h"
#include "tests/support/refused_calls.h"

namespace weft::test {
namespace {

constexpr uint64_t kBytes = 64 * BlockStore::kAlignment;

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
    const std::string filter = RefuseCalls({number}, error_number);
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

}  // namespace
}  // namespace weft::test

// Any system call of files fails, or is the last one of its process: what is not Ok says so, an atomic write is all or
// nothing, and no descriptor stays open.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/status.h"
#include "base/text.h"
#include "tests/support/failing_calls.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

class FilesFailingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/weft_files_failing_XXXXXX";
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
    before_ = Holdings::Now();
  }

  void TearDown() override {
    EXPECT_EQ(Holdings::Now().Since(before_), "");
    std::filesystem::remove_all(root_);
  }

  std::string Read(const std::string& path) {
    return ReadWholeFile(files_, path, 1 << 20).value_or("unreadable");
  }

  Files& files_ = SystemFiles();
  std::string root_;
  Holdings before_;
};

// Every operation once. Ok, or the first error.
absl::Status UseAll(Files& files, const std::string& root) {
  WEFT_RETURN_IF_ERROR(files.MakeDirectory(root + "/d"));
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.Create(root + "/d/a", 5));
  WEFT_RETURN_IF_ERROR(file->Write("bytes", 5));
  WEFT_RETURN_IF_ERROR(file->Sync());
  WEFT_RETURN_IF_ERROR(file->Close());
  WEFT_RETURN_IF_ERROR(files.Rename(root + "/d/a", root + "/d/b"));
  WEFT_RETURN_IF_ERROR(files.Link(root + "/d/b", root + "/d/c"));
  WEFT_ASSIGN_OR_RETURN(const FileKind kind, files.KindOf(root + "/d/c"));
  EXPECT_EQ(kind, FileKind::kFile);
  WEFT_RETURN_IF_ERROR(files.Remove(root + "/d/c"));
  WEFT_RETURN_IF_ERROR(files.SyncDirectory(root + "/d"));
  WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(root + "/d"));
  EXPECT_EQ(names, std::vector<std::string>{"b"});
  WEFT_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(files, root + "/d/b", 5));
  EXPECT_EQ(bytes, "bytes");
  WEFT_RETURN_IF_ERROR(files.Remove(root + "/d/b"));
  return files.RemoveDirectory(root + "/d");
}

TEST_F(FilesFailingTest, EveryCallThatFailsIsSaidAndClosesWhatItOpened) {
  int errors = 0;
  for (const int error_number : {0, EIO, ENOSPC, EACCES}) {
    for (int k = 1;; ++k) {
      std::filesystem::remove_all(root_ + "/d");
      absl::Status status;
      bool struck = false;
      std::string what;
      {
        const FailingCalls failing(k, error_number);
        status = UseAll(files_, root_);
        struck = failing.struck();
        what = failing.what();
      }
      EXPECT_EQ(Holdings::Now().Since(before_), "") << what;
      // Without room reserved, and with a file system that does not say why it does not, it goes on.
      const bool harmless = what.rfind("close", 0) == 0 || what.rfind("fallocate", 0) == 0;
      EXPECT_TRUE(!status.ok() || !struck || harmless) << what;
      if (status.ok() && !struck) break;
      if (status.ok()) continue;
      ++errors;
      EXPECT_NE(status.message().find(ToAbsl(root_ + "/d")), absl::string_view::npos) << status;
      EXPECT_NE(status.message().find(ToAbsl(what.substr(what.find("with ") + 5))),
                absl::string_view::npos)
          << status << " " << what;
    }
  }
  EXPECT_GE(errors, 4 * 12);
}

TEST_F(FilesFailingTest, AnAtomicWriteIsAllOrNothingWhateverFails) {
  const std::string path = root_ + "/a";
  for (int k = 1;; ++k) {
    ASSERT_EQ(WriteFileAtomically(files_, path, "old"), absl::OkStatus());
    absl::Status status;
    bool struck = false;
    std::string what;
    {
      const FailingCalls failing(k);
      status = WriteFileAtomically(files_, path, "new");
      struck = failing.struck();
      what = failing.what();
    }
    EXPECT_TRUE(Read(path) == "new" || (Read(path) == "old" && !status.ok())) << what << status;
    EXPECT_FALSE(std::filesystem::exists(path + ".new")) << what;
    if (!struck) break;
  }
}

TEST_F(FilesFailingTest, AnAtomicWriteIsAllOrNothingWhereverItsProcessEnds) {
  const std::string path = root_ + "/a";
  int deaths = 0;
  for (bool dead = true; dead;) {
    ASSERT_EQ(WriteFileAtomically(files_, path, "old"), absl::OkStatus());
    const pid_t child = fork();
    if (child == 0) {
      DieAtCall(deaths + 1);
      _exit(WriteFileAtomically(files_, path, "new").ok() ? 0 : 1);
    }
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    dead = WIFSIGNALED(state);
    ASSERT_TRUE(dead || WEXITSTATUS(state) == 0) << state;
    deaths += static_cast<int>(dead);
    EXPECT_TRUE(Read(path) == "new" || (dead && Read(path) == "old")) << "call " << deaths;
  }
  EXPECT_GE(deaths, 6);
}

TEST_F(FilesFailingTest, CallsOfAnotherThreadCountIfAskedFor) {
  const std::string path = root_ + "/a";
  {
    const FailingCalls failing(3, ENOSPC);
    absl::Status status;
    std::thread([&] { status = WriteFileAtomically(files_, path, "new"); }).join();
    EXPECT_EQ(status, absl::OkStatus());
    EXPECT_FALSE(failing.struck());
  }
  const FailingCalls failing(3, ENOSPC, CallsOf::kProcess);
  absl::Status status;
  std::thread([&] { status = WriteFileAtomically(files_, path, "new"); }).join();
  EXPECT_EQ(ResultOf(status), WEFT_OUT_OF_MEMORY) << status;
  EXPECT_EQ(failing.what(), "write failed with No space left on device");
}

}  // namespace
}  // namespace weft::test

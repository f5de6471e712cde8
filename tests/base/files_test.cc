// Files of a real file system: what is written is read, what cannot be done is said, and nothing is left of what failed.
#include "base/files.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "tests/support/in_child.h"
#include "tests/support/leak_check.h"

namespace weft::test::files_test {
namespace {

using Names = std::vector<std::string>;

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "/weft_files_XXXXXX";
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
    before_ = Holdings::Now();
  }

  void TearDown() override {
    EXPECT_EQ(Holdings::Now().Since(before_), "");
    RemoveTree(root_);
  }

  void RemoveTree(const std::string& path) {
    const absl::StatusOr<Names> names = files_.List(path);
    if (!names.ok()) return;
    for (const std::string& name : *names) {
      const std::string child = StrCat(path, "/", name);
      if (!files_.Remove(child).ok()) RemoveTree(child);
    }
    EXPECT_EQ(files_.RemoveDirectory(path), absl::OkStatus());
  }

  std::string Path(std::string_view name) const { return StrCat(root_, "/", name); }

  absl::Status WriteFile(const std::string& path, std::string_view bytes) {
    WEFT_ASSIGN_OR_RETURN(const auto file, files_.Create(path, bytes.size()));
    WEFT_RETURN_IF_ERROR(file->Write(bytes.data(), bytes.size()));
    WEFT_RETURN_IF_ERROR(file->Sync());
    return file->Close();
  }

  Files& files_ = SystemFiles();
  std::string root_;
  Holdings before_;
};

TEST_F(FilesTest, WhatWasWrittenIsRead) {
  const unsigned long long seed = TestSeed(1);
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::string bytes(3'000'017, '\0');
  for (char& byte : bytes)
    byte = static_cast<char>(random());
  absl::StatusOr<std::unique_ptr<WritableFile>> file = files_.Create(Path("a"), bytes.size());
  ASSERT_TRUE(file.ok()) << file.status();
  // Pieces of none, one and many bytes.
  for (size_t done = 0; done < bytes.size();) {
    const size_t piece = std::min<size_t>(bytes.size() - done,
                                          random() % 3 == 0 ? random() % 2 : random() % 400'000);
    ASSERT_EQ((*file)->Write(bytes.data() + done, piece), absl::OkStatus());
    done += piece;
  }
  ASSERT_EQ((*file)->Sync(), absl::OkStatus());
  ASSERT_EQ((*file)->Close(), absl::OkStatus());
  file->reset();

  EXPECT_EQ(*ReadWholeFile(files_, Path("a"), bytes.size()), bytes);
  const std::unique_ptr<ReadableFile> reader = *files_.Open(Path("a"));
  EXPECT_EQ(*reader->Size(), bytes.size());
  for (const uint64_t offset : {0, 1, 4095, 2'999'999}) {
    std::string part(17, '\0');
    ASSERT_EQ(reader->ReadAt(offset, part.data(), part.size()), absl::OkStatus());
    EXPECT_EQ(part, bytes.substr(offset, part.size()));
  }
  EXPECT_EQ(reader->ReadAt(bytes.size(), nullptr, 0), absl::OkStatus());
}

// Whole blocks pass by the page cache, what is none goes through it: in any order the file has the bytes, also where no file system is below
// that does (memory).
TEST_F(FilesTest, BlocksAndOtherPiecesTakeTurns) {
  const unsigned long long seed = TestSeed(2);
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  constexpr size_t kBlock = WritableFile::kBlockBytes;
  constexpr size_t kBytes = 200 * kBlock;
  const std::unique_ptr<char, decltype(&std::free)> memory(
      static_cast<char*>(std::aligned_alloc(kBlock, kBytes)), &std::free);
  char* const bytes = memory.get();
  for (size_t i = 0; i < kBytes; ++i)
    bytes[i] = static_cast<char>(random());
  for (const std::string& path : {Path("a"), StrCat("/dev/shm/weft-files-", getpid())}) {
    absl::StatusOr<std::unique_ptr<WritableFile>> file = files_.Create(path, kBytes);
    if (!file.ok() && path != Path("a")) continue;
    ASSERT_TRUE(file.ok()) << file.status();
    for (size_t done = 0; done < kBytes;) {
      // Whole blocks, a block and a little, a little, or what is left of a block.
      const size_t pieces[] = {kBlock * (1 + random() % 8), kBlock + random() % 100,
                               1 + random() % 100, kBlock - done % kBlock};
      const size_t piece = std::min(kBytes - done, pieces[random() % 4]);
      ASSERT_EQ((*file)->Write(bytes + done, piece), absl::OkStatus());
      done += piece;
    }
    EXPECT_EQ((*file)->Sync(), absl::OkStatus());
    EXPECT_EQ((*file)->Close(), absl::OkStatus());
    EXPECT_EQ(*ReadWholeFile(files_, path, kBytes), std::string_view(bytes, kBytes));
    EXPECT_EQ(files_.Remove(path), absl::OkStatus());
  }
}

TEST_F(FilesTest, ManyThreadsReadOneFile) {
  std::string bytes(1 << 20, '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(i * 31 >> 8);
  ASSERT_EQ(WriteFile(Path("a"), bytes), absl::OkStatus());
  const std::unique_ptr<ReadableFile> reader = *files_.Open(Path("a"));
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (size_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (size_t offset = t * 1013; offset + 5000 <= bytes.size(); offset += 15'000) {
        std::string part(5000, '\0');
        ASSERT_EQ(reader->ReadAt(offset, part.data(), part.size()), absl::OkStatus());
        ASSERT_EQ(part, bytes.substr(offset, part.size()));
      }
    });
  for (std::thread& thread : threads)
    thread.join();
}

TEST_F(FilesTest, AFileHasTheBytesWrittenToItWhateverWasReserved) {
  const std::unique_ptr<WritableFile> file = *files_.Create(Path("a"), 1 << 20);
  ASSERT_EQ(file->Write("abc", 3), absl::OkStatus());
  ASSERT_EQ(file->Close(), absl::OkStatus());
  EXPECT_EQ(*ReadWholeFile(files_, Path("a"), 100), "abc");
  ASSERT_EQ(WriteFile(Path("empty"), ""), absl::OkStatus());
  EXPECT_EQ(*ReadWholeFile(files_, Path("empty"), 0), "");
}

TEST_F(FilesTest, AFileThatIsThereIsNotWritten) {
  ASSERT_EQ(WriteFile(Path("a"), "old"), absl::OkStatus());
  const absl::Status status = files_.Create(Path("a"), 0).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_EQ(ResultOf(status), WEFT_SYSTEM_ERROR);
  EXPECT_EQ(status.message(), ToAbsl(StrCat("creating ", Path("a"), ": File exists")));
  EXPECT_EQ(*ReadWholeFile(files_, Path("a"), 100), "old");
}

TEST_F(FilesTest, AMissingFileIsToldFromOtherErrors) {
  const std::string missing = Path("none");
  const std::vector<absl::Status> statuses = {
      files_.Open(missing).status(),
      files_.Create(missing + "/a", 0).status(),
      files_.Rename(missing, Path("b")),
      files_.Remove(missing),
      files_.RemoveDirectory(missing),
      files_.MakeDirectory(missing + "/a"),
      files_.List(missing).status(),
      files_.SyncDirectory(missing),
      ReadWholeFile(files_, missing, 10).status(),
      WriteFileAtomically(files_, missing + "/a", "text"),
  };
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_EQ(ResultOf(status), WEFT_SYSTEM_ERROR) << status;
    EXPECT_NE(status.message().find(missing), absl::string_view::npos) << status;
    EXPECT_NE(status.message().find("No such file or directory"), absl::string_view::npos)
        << status;
    const absl::Status annotated = Annotate(status, "loading step 7: ");
    EXPECT_TRUE(absl::IsNotFound(annotated)) << annotated;
    EXPECT_EQ(ResultOf(annotated), WEFT_SYSTEM_ERROR);
  }
  EXPECT_FALSE(absl::IsNotFound(SystemError(EIO, "reading")));
}

TEST_F(FilesTest, WhatStandsInTheWrongPlaceIsSaid) {
  ASSERT_EQ(files_.MakeDirectory(Path("d")), absl::OkStatus());
  ASSERT_EQ(WriteFile(Path("d/a"), "a"), absl::OkStatus());
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const auto says = [](const absl::Status& status, std::string_view text) {
    EXPECT_EQ(ResultOf(status), WEFT_SYSTEM_ERROR) << status;
    EXPECT_FALSE(absl::IsNotFound(status)) << status;
    EXPECT_NE(status.message().find(ToAbsl(text)), absl::string_view::npos) << status;
  };
  says(files_.Open(Path("d")).status(), "Is a directory");
  says(files_.Open(Path("pipe")).status(), "no ordinary file");
  says(files_.Create(Path("d/a/b"), 0).status(), "Not a directory");
  says(files_.MakeDirectory(Path("d/a")), "Not a directory");
  says(files_.List(Path("d/a")).status(), "Not a directory");
  says(files_.SyncDirectory(Path("d/a")), "Not a directory");
  says(files_.Remove(Path("d")), "removing");
  says(files_.RemoveDirectory(Path("d")), "Directory not empty");
  says(files_.Rename(Path("d/a"), Path("d")), "renaming");
}

TEST_F(FilesTest, DirectoriesAreMadeListedAndRemoved) {
  EXPECT_EQ(files_.MakeDirectory(Path("d")), absl::OkStatus());
  EXPECT_EQ(files_.MakeDirectory(Path("d")), absl::OkStatus());
  EXPECT_EQ(*files_.List(Path("d")), Names{});
  for (const char* name : {"c", "a", ".hidden", "b"})
    ASSERT_EQ(WriteFile(StrCat(Path("d/"), name), name), absl::OkStatus());
  EXPECT_EQ(*files_.List(Path("d")), (Names{".hidden", "a", "b", "c"}));
  EXPECT_EQ(files_.Rename(Path("d/a"), Path("d/b")), absl::OkStatus());
  EXPECT_EQ(files_.Remove(Path("d/.hidden")), absl::OkStatus());
  EXPECT_EQ(files_.SyncDirectory(Path("d")), absl::OkStatus());
  EXPECT_EQ(files_.SyncDirectory(root_), absl::OkStatus());
  EXPECT_EQ(*files_.List(Path("d")), (Names{"b", "c"}));
  EXPECT_EQ(*ReadWholeFile(files_, Path("d/b"), 10), "a");
  EXPECT_EQ(files_.Rename(Path("d"), Path("e")), absl::OkStatus());
  EXPECT_EQ(*files_.List(Path("e")), (Names{"b", "c"}));
}

TEST_F(FilesTest, ASecondNameIsGivenOnceAndStaysWhenTheFirstGoes) {
  ASSERT_EQ(WriteFile(Path("a"), "a"), absl::OkStatus());
  ASSERT_EQ(WriteFile(Path("b"), "b"), absl::OkStatus());
  EXPECT_EQ(files_.Link(Path("a"), Path("c")), absl::OkStatus());
  EXPECT_TRUE(absl::IsAlreadyExists(files_.Link(Path("b"), Path("c"))));
  EXPECT_TRUE(absl::IsNotFound(files_.Link(Path("none"), Path("d"))));
  EXPECT_EQ(files_.Remove(Path("a")), absl::OkStatus());
  EXPECT_EQ(*ReadWholeFile(files_, Path("c"), 10), "a");
  EXPECT_EQ(*files_.List(root_), (Names{"b", "c"}));
}

TEST_F(FilesTest, TheKindIsOfWhatStandsThereNotOfWhatALinkLeadsTo) {
  ASSERT_EQ(files_.MakeDirectory(Path("d")), absl::OkStatus());
  ASSERT_EQ(WriteFile(Path("a"), "a"), absl::OkStatus());
  ASSERT_EQ(symlink("d", Path("to-d").c_str()), 0);
  ASSERT_EQ(symlink("nothing", Path("to-nothing").c_str()), 0);
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(*files_.KindOf(Path("d")), FileKind::kDirectory);
  EXPECT_EQ(*files_.KindOf(Path("a")), FileKind::kFile);
  EXPECT_EQ(*files_.KindOf(Path("to-d")), FileKind::kLink);
  EXPECT_EQ(*files_.KindOf(Path("to-nothing")), FileKind::kLink);
  EXPECT_EQ(*files_.KindOf(Path("pipe")), FileKind::kOther);
  EXPECT_TRUE(absl::IsNotFound(files_.KindOf(Path("none")).status()));
}

TEST_F(FilesTest, AFileThatEndsEarlyIsCorrupt) {
  ASSERT_EQ(WriteFile(Path("a"), "0123456789"), absl::OkStatus());
  const std::unique_ptr<ReadableFile> reader = *files_.Open(Path("a"));
  char byte[8];
  for (const uint64_t offset : {uint64_t{3}, uint64_t{10}, uint64_t{1} << 40, UINT64_MAX}) {
    const absl::Status status = reader->ReadAt(offset, byte, sizeof(byte));
    EXPECT_EQ(ResultOf(status), WEFT_CORRUPT) << status;
    EXPECT_NE(status.message().find(Path("a")), absl::string_view::npos) << status;
  }
  const absl::Status too_long = ReadWholeFile(files_, Path("a"), 9).status();
  EXPECT_EQ(ResultOf(too_long), WEFT_CORRUPT) << too_long;
  EXPECT_NE(too_long.message().find("it has 10 bytes, and 9 "), absl::string_view::npos)
      << too_long;
}

TEST(FileError, SaysWhatToDo) {
  const absl::Status full = FileError(ENOSPC, "writing /x");
  EXPECT_EQ(ResultOf(full), WEFT_OUT_OF_MEMORY);
  EXPECT_EQ(ResultOf(FileError(EDQUOT, "writing /x")), WEFT_OUT_OF_MEMORY);
  EXPECT_EQ(full.message(),
            "writing /x: No space left on device; free some of that file system, or choose a "
            "directory of another one");
  for (const int error_number : {EIO, EROFS, EACCES, EPERM, EFBIG, EMFILE, ENAMETOOLONG, ESTALE})
    EXPECT_EQ(ResultOf(FileError(error_number, "writing /x")), WEFT_SYSTEM_ERROR);
}

TEST_F(FilesTest, TheLimitOfAFilesSizeIsAnErrorNotASignal) {
  const std::string said = InChild([&]() -> std::string {
    const rlimit limit{8192, 8192};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return "no limit";
    const std::string bytes(5000, 'a');
    const std::unique_ptr<WritableFile> file = *files_.Create(Path("a"), 0);
    if (!file->Write(bytes.data(), bytes.size()).ok()) return "the first part was refused";
    const absl::Status second = file->Write(bytes.data(), bytes.size());
    // Less would fit, but what stands before it is not there.
    if (file->Write("a", 1) != second || file->Sync() != second || file->Close() != second)
      return "the first error did not stay";
    return std::string(second.message());
  });
  EXPECT_EQ(said, StrCat("writing ", Path("a"),
                         " at byte 5000: File too large; raise the limit of a file's size (ulimit "
                         "-f), or choose a "
                         "file system that takes larger ones"));
}

TEST_F(FilesTest, AFullFileSystemIsKnownBeforeTheFirstByteAndLeavesNothing) {
  const std::string said = InChild([&]() -> std::string {
    if (!EnterOwnMounts() || mount("none", root_.c_str(), "tmpfs", 0, "size=256k") != 0)
      return "skip: no file system may be mounted here";
    const absl::Status early = files_.Create(Path("a"), 1 << 20).status();
    if (ResultOf(early) != WEFT_OUT_OF_MEMORY) return StrCat("early: ", early.ToString());
    if (!files_.List(root_)->empty()) return "the file is still there";
    // Without room reserved, the write says it.
    const std::string bytes(1 << 20, 'a');
    const std::unique_ptr<WritableFile> file = *files_.Create(Path("b"), 0);
    const absl::Status late = file->Write(bytes.data(), bytes.size());
    if (ResultOf(late) != WEFT_OUT_OF_MEMORY) return StrCat("late: ", late.ToString());
    if (file->Write("a", 1) != late || file->Sync() != late || file->Close() != late)
      return "the first error did not stay";
    if (!files_.Remove(Path("b")).ok()) return "it could not be removed";
    const absl::Status whole = WriteFileAtomically(files_, Path("c"), bytes);
    if (ResultOf(whole) != WEFT_OUT_OF_MEMORY) return StrCat("whole: ", whole.ToString());
    if (!files_.List(root_)->empty()) return "something is left";
    // A file system that is only read.
    if (mount("none", root_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0)
      return "skip: it may not be mounted again";
    const absl::Status only_read = files_.Create(Path("d"), 0).status();
    if (only_read.message().find("Read-only file system; choose a directory") ==
        absl::string_view::npos)
      return only_read.ToString();
    return StrCat(early.message(), "\n", late.message());
  });
  if (said.rfind("skip", 0) == 0) GTEST_SKIP() << said;
  EXPECT_EQ(said.rfind(StrCat("creating ", Path("a"),
                              " with room for 1048576 bytes: No space left on device"),
                       0),
            0)
      << said;
  EXPECT_NE(said.find(StrCat("writing ", Path("b"), " at byte 262144: No space left")),
            std::string::npos)
      << said;
}

TEST_F(FilesTest, NoPermissionIsSaid) {
  ASSERT_EQ(files_.MakeDirectory(Path("d")), absl::OkStatus());
  ASSERT_EQ(chmod(Path("d").c_str(), 0500), 0);
  // Somebody whom root's rights do not help.
  const bool root = getuid() == 0;
  if (root) {
    ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
  }
  const std::string said = InChild([&]() -> std::string {
    if (root && (setgid(65534) != 0 || setuid(65534) != 0))
      return "skip: no other user may be taken";
    return std::string(files_.Create(Path("d/a"), 0).status().message());
  });
  chmod(Path("d").c_str(), 0700);
  if (said.rfind("skip", 0) == 0) GTEST_SKIP() << said;
  EXPECT_EQ(
      said,
      StrCat(
          "creating ", Path("d/a"),
          ": Permission denied; choose another directory, or let this user write and read there"));
}

TEST_F(FilesTest, SignalsDoNotEndAWrite) {
  struct sigaction action {};

  struct sigaction old {};

  action.sa_handler = [](int) {
  };
  sigaction(SIGALRM, &action, &old);
  const itimerval often{{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &often, nullptr);
  const std::string bytes(16 << 20, 'a');
  const absl::Status status = WriteFile(Path("a"), bytes);
  const absl::StatusOr<std::string> read = ReadWholeFile(files_, Path("a"), bytes.size());
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &old, nullptr);
  EXPECT_EQ(status, absl::OkStatus());
  EXPECT_TRUE(read.ok() && *read == bytes) << read.status();
}

TEST_F(FilesTest, AFileIsReplacedAsAWhole) {
  const std::string path = Path("a");
  EXPECT_EQ(WriteFileAtomically(files_, path, "one"), absl::OkStatus());
  // As a writer that was killed leaves it.
  ASSERT_EQ(WriteFile(path + ".new", "half of something"), absl::OkStatus());
  EXPECT_EQ(WriteFileAtomically(files_, path, "two"), absl::OkStatus());
  EXPECT_EQ(*ReadWholeFile(files_, path, 10), "two");
  EXPECT_EQ(*files_.List(root_), Names{"a"});
  // What cannot be put in its place leaves nothing.
  ASSERT_EQ(files_.MakeDirectory(Path("d")), absl::OkStatus());
  EXPECT_NE(WriteFileAtomically(files_, Path("d"), "three"), absl::OkStatus());
  EXPECT_EQ(*files_.List(root_), (Names{"a", "d"}));
}

TEST(AbsolutePath, LeadsWhereThePathLedWhenItWasGiven) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(*AbsolutePath("a/b"), here + "/a/b");
  EXPECT_EQ(*AbsolutePath("a///"), here + "/a");
  EXPECT_EQ(*AbsolutePath("../a"), here + "/../a");
  EXPECT_EQ(*AbsolutePath("/a/b//"), "/a/b");
  EXPECT_EQ(*AbsolutePath("/"), "/");
  EXPECT_EQ(*AbsolutePath("///"), "/");
}

TEST(ParentDirectory, IsWhatStandsBeforeTheLastName) {
  EXPECT_EQ(ParentDirectory("a"), ".");
  EXPECT_EQ(ParentDirectory(""), ".");
  EXPECT_EQ(ParentDirectory("/a"), "/");
  EXPECT_EQ(ParentDirectory("/"), "/");
  EXPECT_EQ(ParentDirectory("a/b"), "a");
  EXPECT_EQ(ParentDirectory("a/b/"), "a");
  EXPECT_EQ(ParentDirectory("/a//b//"), "/a");
}

}  // namespace
}  // namespace weft::test::files_test

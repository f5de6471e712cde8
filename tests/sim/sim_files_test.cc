// The simulated files: they behave as real ones while nothing fails, keep what was promised, and lose what was not.
#include "tests/sim/sim_files.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "tests/support/leak_check.h"

namespace weft::test::sim_files_test {
namespace {

using Names = std::vector<std::string>;

constexpr size_t kStatesMax = 20'000;
constexpr uint64_t kSeed = 1;

std::unique_ptr<WritableFile> Written(Files& files, const std::string& path,
                                      std::string_view bytes) {
  absl::StatusOr<std::unique_ptr<WritableFile>> file = files.Create(path, bytes.size());
  EXPECT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Write(bytes.data(), bytes.size()), absl::OkStatus());
  return *std::move(file);
}

// A file that is there to stay, but for its name.
void WriteSynced(Files& files, const std::string& path, std::string_view bytes) {
  const std::unique_ptr<WritableFile> file = Written(files, path, bytes);
  EXPECT_EQ(file->Sync(), absl::OkStatus());
  EXPECT_EQ(file->Close(), absl::OkStatus());
}

// "a: what it holds", or "a: none".
std::string Look(Files& files, const std::string& path) {
  const absl::StatusOr<std::string> bytes = ReadWholeFile(files, path, 1 << 20);
  return bytes.ok()                         ? *bytes
         : absl::IsNotFound(bytes.status()) ? "none"
                                            : bytes.status().ToString();
}

// What `path` holds after a loss of power, in all ways.
std::set<std::string> AfterCrash(const SimFiles& files, const std::string& path) {
  std::set<std::string> found;
  files.ForEachCrashState(kStatesMax, kSeed, [&](SimFiles& left, const std::string&) {
    found.insert(Look(left, path));
  });
  return found;
}

using Found = std::set<std::string>;

TEST(SimFiles, WhatWasSyncedStays) {
  SimFiles files;
  ASSERT_EQ(files.MakeDirectory("/d"), absl::OkStatus());
  WriteSynced(files, "/d/a", "bytes");
  ASSERT_EQ(files.SyncDirectory("/d"), absl::OkStatus());
  ASSERT_EQ(files.SyncDirectory("/"), absl::OkStatus());
  EXPECT_EQ(files.ForEachCrashState(kStatesMax, kSeed, [](SimFiles&, const std::string&) {}), 1U);
  EXPECT_EQ(AfterCrash(files, "/d/a"), Found{"bytes"});
  // Whatever else goes on.
  const std::unique_ptr<WritableFile> other = Written(files, "/d/b", "other");
  EXPECT_EQ(AfterCrash(files, "/d/a"), Found{"bytes"});
}

TEST(SimFiles, ASecondNameIsGivenOnceAndStaysWhenTheFirstGoes) {
  SimFiles files;
  WriteSynced(files, "/a", "a");
  WriteSynced(files, "/b", "b");
  EXPECT_EQ(files.Link("/a", "/c"), absl::OkStatus());
  EXPECT_TRUE(absl::IsAlreadyExists(files.Link("/b", "/c")));
  EXPECT_TRUE(absl::IsNotFound(files.Link("/none", "/d")));
  EXPECT_EQ(*files.List("/"), (Names{"a", "b", "c"}));
  ASSERT_EQ(files.SyncDirectory("/"), absl::OkStatus());
  EXPECT_EQ(files.Remove("/a"), absl::OkStatus());
  EXPECT_EQ(*files.List("/"), (Names{"b", "c"}));
  EXPECT_EQ(*files.KindOf("/c"), FileKind::kFile);
  EXPECT_EQ(AfterCrash(files, "/c"), Found{"a"});
  EXPECT_EQ(AfterCrash(files, "/a"), (Found{"a", "none"}));
}

TEST(SimFiles, ThereIsNoMoreRoomThanWasSaid) {
  SimFiles files;
  files.SetRoom(10);
  WriteSynced(files, "/a", "seven77");
  EXPECT_EQ(files.bytes(), 7U);
  EXPECT_EQ(ResultOf(files.Create("/b", 4).status()), WEFT_OUT_OF_MEMORY);
  const auto file = files.Create("/b", 0);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(ResultOf((*file)->Write("four", 4)), WEFT_OUT_OF_MEMORY);
  EXPECT_EQ(files.Remove("/a"), absl::OkStatus());
  EXPECT_TRUE(files.Create("/c", 10).ok());
}

TEST(SimFiles, ANameThatWasNotSyncedMayBeGone) {
  SimFiles files;
  ASSERT_EQ(files.MakeDirectory("/d"), absl::OkStatus());
  WriteSynced(files, "/d/a", "bytes");
  EXPECT_EQ(AfterCrash(files, "/d/a"), (Found{"bytes", "none"}));
  // A directory's own name is its parent's.
  ASSERT_EQ(files.SyncDirectory("/d"), absl::OkStatus());
  EXPECT_EQ(AfterCrash(files, "/d/a"), (Found{"bytes", "none"}));
  ASSERT_EQ(files.SyncDirectory(ParentDirectory("d")), absl::OkStatus());
  EXPECT_EQ(AfterCrash(files, "/d/a"), Found{"bytes"});
  ASSERT_EQ(files.Remove("/d/a"), absl::OkStatus());
  EXPECT_EQ(AfterCrash(files, "/d/a"), (Found{"bytes", "none"}));
  ASSERT_EQ(files.SyncDirectory("/d"), absl::OkStatus());
  EXPECT_EQ(AfterCrash(files, "/d/a"), Found{"none"});
}

TEST(SimFiles, OfBytesThatWereNotSyncedAnyMayBeThere) {
  SimFiles files;
  const std::unique_ptr<WritableFile> file = Written(files, "/a", "0123");
  ASSERT_EQ(file->Sync(), absl::OkStatus());
  ASSERT_EQ(files.SyncDirectory("/"), absl::OkStatus());
  ASSERT_EQ(file->Write("4567", 4), absl::OkStatus());
  ASSERT_EQ(file->Write("89", 2), absl::OkStatus());
  const Found found = AfterCrash(files, "/a");
  const std::string zeros(6, '\0');
  for (const std::string& bytes :
       {std::string("0123"), std::string("012345"), std::string("01234567"),
        std::string("012345678"), std::string("0123456789"), "0123" + zeros,
        "0123" + zeros.substr(0, 4) + "89", "01234567" + zeros.substr(0, 2)})
    EXPECT_EQ(found.count(bytes), 1U) << bytes;
  for (const std::string& bytes : found) {
    EXPECT_EQ(bytes.substr(0, 4), "0123");
    EXPECT_LE(bytes.size(), 10U);
  }
  ASSERT_EQ(file->Sync(), absl::OkStatus());
  EXPECT_EQ(AfterCrash(files, "/a"), Found{"0123456789"});
}

TEST(SimFiles, ARenameIsWhole) {
  SimFiles files;
  WriteSynced(files, "/a", "old");
  ASSERT_EQ(files.SyncDirectory("/"), absl::OkStatus());
  WriteSynced(files, "/a.new", "new");
  ASSERT_EQ(files.Rename("/a.new", "/a"), absl::OkStatus());
  EXPECT_EQ(AfterCrash(files, "/a"), (Found{"old", "new"}));
  files.ForEachCrashState(kStatesMax, kSeed, [](SimFiles& left, const std::string& what) {
    const std::string found = StrCat(Look(left, "/a"), " ", Look(left, "/a.new"));
    EXPECT_TRUE(found == "old none" || found == "old new" || found == "new none") << found << what;
  });
  ASSERT_EQ(files.SyncDirectory("/"), absl::OkStatus());
  EXPECT_EQ(AfterCrash(files, "/a"), Found{"new"});
}

TEST(SimFiles, ARenameMayComeBeforeTheBytes) {
  SimFiles files;
  WriteSynced(files, "/a", "old");
  ASSERT_EQ(files.SyncDirectory("/"), absl::OkStatus());
  const std::unique_ptr<WritableFile> file = Written(files, "/a.new", "new");
  ASSERT_EQ(files.Rename("/a.new", "/a"), absl::OkStatus());
  ASSERT_EQ(files.SyncDirectory("/"), absl::OkStatus());
  const Found found = AfterCrash(files, "/a");
  EXPECT_EQ(found.count(""), 1U);
  EXPECT_EQ(found.count("new"), 1U);
  EXPECT_EQ(found.count("old"), 0U);
}

TEST(SimFiles, AFailedSyncNeverComesTrue) {
  SimFiles files;
  const std::unique_ptr<WritableFile> file = Written(files, "/a", "bytes");
  files.FailAt(1, EIO);
  const absl::Status failed = file->Sync();
  EXPECT_EQ(ResultOf(failed), WEFT_SYSTEM_ERROR);
  EXPECT_TRUE(files.struck());
  EXPECT_EQ(files.what(), "call 3, syncing /a, failed with EIO");
  EXPECT_EQ(file->Sync(), failed);
  EXPECT_EQ(file->Write("more", 4), failed);
  EXPECT_EQ(file->Close(), failed);
  ASSERT_EQ(files.SyncDirectory("/"), absl::OkStatus());
  EXPECT_EQ(Look(files, "/a"), "bytes");
  EXPECT_EQ(AfterCrash(files, "/a").count(""), 1U);

  WriteSynced(files, "/b", "bytes");
  files.FailAt(1, EIO);
  EXPECT_FALSE(files.SyncDirectory("/").ok());
  EXPECT_EQ(files.SyncDirectory("/"), absl::OkStatus());
  EXPECT_EQ(AfterCrash(files, "/b"), (Found{"bytes", "none"}));
  // What is synced later counts nevertheless.
  ASSERT_EQ(files.Remove("/b"), absl::OkStatus());
  ASSERT_EQ(files.SyncDirectory("/"), absl::OkStatus());
  EXPECT_EQ(AfterCrash(files, "/b"), Found{"none"});
}

TEST(SimFiles, AFailedCallLeavesWhatItsEffectSays) {
  SimFiles files;
  WriteSynced(files, "/a", "a");
  files.FailAt(1, EIO);
  EXPECT_FALSE(files.Rename("/a", "/b").ok());
  EXPECT_EQ(Look(files, "/a"), "a");
  files.FailAt(1, EIO, SimFiles::Effect::kDone);
  EXPECT_FALSE(files.Rename("/a", "/b").ok());
  EXPECT_EQ(Look(files, "/b"), "a");
  files.FailAt(1, ENOSPC, SimFiles::Effect::kDone);
  EXPECT_EQ(ResultOf(files.Create("/c", 0).status()), WEFT_OUT_OF_MEMORY);
  EXPECT_EQ(Look(files, "/c"), "none");
  const std::unique_ptr<WritableFile> file = Written(files, "/c", "");
  files.FailFrom(2, ENOSPC);
  EXPECT_EQ(file->Write("12", 2), absl::OkStatus());
  EXPECT_EQ(ResultOf(file->Write("3456", 4)), WEFT_OUT_OF_MEMORY);
  EXPECT_EQ(ResultOf(files.MakeDirectory("/d")), WEFT_OUT_OF_MEMORY);
  files.FailAt(0, 0);
  EXPECT_EQ(Look(files, "/c"), "1234");
}

TEST(SimFiles, ADeadProcessDoesNothing) {
  SimFiles files;
  const std::unique_ptr<WritableFile> file = Written(files, "/a", "");
  const std::unique_ptr<WritableFile> other = Written(files, "/b", "");
  files.DieAt(2);
  EXPECT_EQ(file->Write("12", 2), absl::OkStatus());
  EXPECT_FALSE(files.dead());
  EXPECT_EQ(ResultOf(file->Write("3456", 4)), WEFT_ABORTED);
  EXPECT_TRUE(files.dead());
  EXPECT_EQ(files.what(), "call 6, writing 4 bytes to /a, in which the process ended");
  EXPECT_EQ(ResultOf(other->Write("1234", 4)), WEFT_ABORTED);
  EXPECT_EQ(ResultOf(files.Remove("/a")), WEFT_ABORTED);
  EXPECT_EQ(ResultOf(files.SyncDirectory("/")), WEFT_ABORTED);
  EXPECT_EQ(ResultOf(files.Open("/a").status()), WEFT_ABORTED);
  // The next process finds what the kernel had; it is no safer than before.
  files.Revive();
  EXPECT_EQ(Look(files, "/a"), "1234");
  EXPECT_EQ(Look(files, "/b"), "");
  EXPECT_FALSE(other->Write("1234", 4).ok());
  EXPECT_EQ(AfterCrash(files, "/a").count("none"), 1U);
}

// An old file or the new one after an error or a death at any call, with or without a loss of power; once it is Ok, the new.
TEST(SimFiles, AtomicWritesAre) {
  SimFiles before;
  ASSERT_EQ(before.MakeDirectory("/d"), absl::OkStatus());
  ASSERT_EQ(before.SyncDirectory("/"), absl::OkStatus());
  ASSERT_EQ(WriteFileAtomically(before, "/d/a", "old"), absl::OkStatus());
  const std::unique_ptr<WritableFile> rest = Written(before, "/d/a.new", "of somebody who died");
  size_t states = 0;
  const std::function<void(SimFiles&, int)> plans[] = {
      [](SimFiles& files, int k) { files.FailAt(k, EIO); },
      [](SimFiles& files, int k) { files.FailAt(k, EIO, SimFiles::Effect::kDone); },
      [](SimFiles& files, int k) { files.FailFrom(k, ENOSPC); },
      [](SimFiles& files, int k) { files.DieAt(k); },
  };
  for (const auto& plan : plans) {
    int k = 1;
    for (bool struck = true; struck; ++k) {
      const std::unique_ptr<SimFiles> files = before.Copy();
      plan(*files, k);
      const absl::Status written = WriteFileAtomically(*files, "/d/a", "new");
      struck = files->struck();
      SCOPED_TRACE(files->what());
      EXPECT_TRUE(struck || written.ok()) << written;
      states +=
          files->ForEachCrashState(kStatesMax, kSeed, [&](SimFiles& left, const std::string& what) {
            const std::string found = Look(left, "/d/a");
            EXPECT_TRUE(found == "new" || (found == "old" && !written.ok()))
                << found << " " << what;
            EXPECT_EQ(WriteFileAtomically(left, "/d/a", "newer"), absl::OkStatus()) << what;
            EXPECT_EQ(Look(left, "/d/a"), "newer") << what;
          });
      files->Revive();
      const std::string found = Look(*files, "/d/a");
      EXPECT_TRUE(found == "new" || (found == "old" && !written.ok())) << found;
      EXPECT_EQ(WriteFileAtomically(*files, "/d/a", "newer"), absl::OkStatus());
      EXPECT_EQ(*files->List("/d"), Names{"a"});
    }
    EXPECT_GE(k, 8);
  }
  std::cout << states << " states after a loss of power\n";
}

TEST(SimFiles, ManyStatesAreSampledWithTheExtremesFirst) {
  SimFiles files;
  std::vector<std::unique_ptr<WritableFile>> open;
  for (int i = 0; i < 12; ++i)
    open.push_back(Written(files, StrCat("/", i), std::string(2000, 'a')));
  const auto look = [&files](size_t states_max, uint64_t seed) {
    std::vector<std::string> states;
    states.reserve(states_max);
    files.ForEachCrashState(states_max, seed, [&states](SimFiles& left, const std::string&) {
      std::string state;
      for (const std::string& path : left.Paths())
        state += path + left.Contents(path);
      states.push_back(state);
    });
    return states;
  };
  const std::vector<std::string> some = look(500, 7);
  EXPECT_EQ(some, look(500, 7));
  EXPECT_NE(some, look(500, 8));
  EXPECT_LE(some.size(), 500U);
  EXPECT_GE(some.size(), 100U);
  EXPECT_EQ(std::set<std::string>(some.begin(), some.end()).size(), some.size());
  EXPECT_EQ(some[0], "");
  std::string everything;
  for (const std::string& path : files.Paths())
    everything += path + files.Contents(path);
  EXPECT_EQ(some[1], everything);
}

TEST(SimFiles, DamageIsDone) {
  SimFiles files;
  WriteSynced(files, "/a", "0123");
  WriteSynced(files, "/b", "b");
  EXPECT_EQ(files.Paths(), (Names{"/a", "/b"}));
  const int64_t calls = files.calls();
  files.Corrupt("/a", 1, 1);
  EXPECT_EQ(files.Contents("/a"), "0023");
  files.Truncate("/a", 3);
  files.Extend("/a", "xy");
  EXPECT_EQ(files.Contents("a"), "002xy");
  files.SwapFiles("/a", "/b");
  EXPECT_EQ(files.calls(), calls);
  EXPECT_EQ(Look(files, "/a"), "b");
  EXPECT_EQ(Look(files, "/b"), "002xy");
}

TEST(SimFiles, ThreadsWriteAndReadAtOnce) {
  SimFiles files;
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&files, t] {
      const std::string directory = StrCat("/", t);
      ASSERT_EQ(files.MakeDirectory(directory), absl::OkStatus());
      for (int i = 0; i < 50; ++i) {
        ASSERT_EQ(WriteFileAtomically(files, directory + "/a", StrCat(t, " ", i)),
                  absl::OkStatus());
        ASSERT_EQ(Look(files, directory + "/a"), StrCat(t, " ", i));
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(files.Paths(), (Names{"/0/a", "/1/a", "/2/a"}));
}

// What a program sees of a status: not the sentence.
std::string Kind(const absl::Status& status) {
  return StrCat(static_cast<int>(status.code()), "/", static_cast<int>(ResultOf(status)));
}

// One call of those that there are, on names of which there are few, and what came of it.
std::string Act(Files& files, const std::string& root,
                const std::function<uint64_t(uint64_t)>& pick) {
  static constexpr const char* kPlaces[] = {"/a", "/b", "/d", "/d/a", "/d/b", "/d/a/c", "/e/a"};
  const auto place = [&] {
    return root + kPlaces[pick(std::size(kPlaces))];
  };
  switch (pick(8)) {
    case 0: {
      const std::string path = place();
      absl::StatusOr<std::unique_ptr<WritableFile>> file = files.Create(path, pick(100));
      if (!file.ok()) return Kind(file.status());
      const std::string bytes(pick(100), static_cast<char>('a' + pick(26)));
      const absl::Status written = (*file)->Write(bytes.data(), bytes.size());
      return StrCat(Kind(written), Kind((*file)->Sync()), Kind((*file)->Close()));
    }
    case 1: {
      const absl::StatusOr<std::string> bytes = ReadWholeFile(files, place(), pick(100));
      return bytes.ok() ? *bytes : Kind(bytes.status());
    }
    case 2: {
      // Within one directory: others are not simulated.
      const std::string directory = root + (pick(2) == 0 ? "/" : "/d/");
      const std::string names = "abd";
      const std::string from = directory + names[pick(3)];
      return Kind(files.Rename(from, directory + names[pick(3)]));
    }
    case 3:
      return Kind(files.Remove(place()));
    case 4:
      return Kind(files.RemoveDirectory(place()));
    case 5:
      return Kind(files.MakeDirectory(place()));
    case 6: {
      const absl::StatusOr<Names> names = files.List(place());
      if (!names.ok()) return Kind(names.status());
      std::string all = "names:";
      for (const std::string& name : *names)
        all += name + " ";
      return all;
    }
    default:
      return Kind(files.SyncDirectory(place()));
  }
}

TEST(SimFiles, BehaveAsRealOnesWhileNothingFails) {
  std::string root = ::testing::TempDir() + "/weft_sim_files_XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const uint64_t seed = TestSeed(kSeed);
  SCOPED_TRACE(StrCat("seed ", seed));
  SimFiles sim;
  std::mt19937_64 random(seed);
  for (int i = 0; i < 600; ++i) {
    const uint64_t action = random();
    const auto picker = [action] {
      auto own = std::make_shared<std::mt19937_64>(action);
      return [own](uint64_t bound) {
        return (*own)() % bound;
      };
    };
    ASSERT_EQ(Act(sim, "", picker()), Act(SystemFiles(), root, picker())) << "action " << i;
  }
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace weft::test::sim_files_test

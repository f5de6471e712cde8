// The cache file: what is written is read, and nothing else is believed.
#include "comm/select/model_cache.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/select/load_model.h"
#include "tests/comm/select/random_model.h"
#include "tests/support/failing_calls.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNow = 1'800'000'000;

class ModelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "weft-cache-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    folder_ = root_ + "/a/weft";
    host_.cpu_model = "Some CPU";
    host_.cores = 1.5;
    host_.l2_bytes = 3 << 20;
    path_ = ModelFilePath(folder_, host_);
  }

  void TearDown() override { fs::remove_all(root_); }

  void Write(int64_t at_s = kNow, bool complete = true) {
    const absl::Status written = WriteModelFile(
        folder_, host_, {.measured_at_s = at_s, .complete = complete, .model = ZenModel()});
    ASSERT_TRUE(written.ok()) << written;
  }

  bool Readable(int64_t now_s = kNow) { return ReadModelFile(folder_, host_, now_s).has_value(); }

  std::string Text() {
    std::ifstream file(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  void Replace(const std::string& text) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
  }

  size_t FileCount() {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  std::string root_;
  std::string folder_;
  std::string path_;
  HostFacts host_;
};

void ExpectSameTimes(const MachineModel& a, const MachineModel& b) {
  for (const ModelField& field : ModelFields())
    EXPECT_EQ(a.*field.value, b.*field.value) << field.name;
}

TEST_F(ModelCacheTest, WhatIsWrittenIsRead) {
  Write();
  const std::optional<StoredModel> stored = ReadModelFile(folder_, host_, kNow + 5);
  ASSERT_TRUE(stored.has_value());
  ExpectSameTimes(stored->model, ZenModel());
  EXPECT_EQ(stored->measured_at_s, kNow);
  EXPECT_TRUE(stored->complete);
  EXPECT_EQ(stored->key, ModelKey(host_));
}

TEST_F(ModelCacheTest, EveryNumberSurvivesToTheLastBit) {
  const uint64_t seed = TestSeed(20261121);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (int i = 0; i < 200; ++i) {
    const MachineModel model = RandomModel(random);
    const absl::StatusOr<StoredModel> read = ModelFromJson(
        ModelAsJson({.key = "k", .measured_at_s = i, .complete = i % 2 == 0, .model = model}));
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectSameTimes(read->model, model);
  }
}

TEST_F(ModelCacheTest, CachesAndCoresAreThoseOfTheMachineNow) {
  Write();
  host_.l2_bytes = 5 << 20;  // not in the key
  const std::optional<StoredModel> stored = ReadModelFile(folder_, host_, kNow);
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->model.l2_bytes, 5u << 20);
  EXPECT_EQ(stored->model.cores, 1.5);
}

TEST_F(ModelCacheTest, AnotherMachineHasAnotherFile) {
  Write();
  const HostFacts before = host_;
  const auto expect_other = [&](auto change) {
    host_ = before;
    change(host_);
    EXPECT_NE(ModelFilePath(folder_, host_), path_);
    EXPECT_FALSE(Readable());
  };
  expect_other([](HostFacts& host) { host.cpu_model = "Another CPU"; });
  expect_other([](HostFacts& host) { host.cpus = 7; });
  expect_other([](HostFacts& host) { host.cores = 2; });
  expect_other([](HostFacts& host) { host.kernel_release = "9.9"; });
  expect_other([](HostFacts& host) { host.hypervisor = true; });
}

TEST_F(ModelCacheTest, AFileUnderAnotherMachinesNameIsNotUsed) {
  Write();
  const std::string text = Text();
  host_.cpu_model = "Another CPU";
  path_ = ModelFilePath(folder_, host_);
  Replace(text);
  EXPECT_FALSE(Readable());
}

TEST_F(ModelCacheTest, GrowsOldSoonerInAVirtualMachine) {
  Write();
  EXPECT_TRUE(Readable(kNow + kModelMaxAgeS));
  EXPECT_FALSE(Readable(kNow + kModelMaxAgeS + 1));
  host_.hypervisor = true;
  Write();
  EXPECT_TRUE(Readable(kNow + kModelMaxAgeVirtualS));
  EXPECT_FALSE(Readable(kNow + kModelMaxAgeVirtualS + 1));
}

TEST_F(ModelCacheTest, AnIncompleteModelIsUsedForMinutes) {
  Write(kNow, false);
  EXPECT_TRUE(Readable(kNow + kModelMaxAgeIncompleteS));
  EXPECT_FALSE(Readable(kNow + kModelMaxAgeIncompleteS + 1));
}

TEST_F(ModelCacheTest, AFileOfTheFutureIsNotUsed) {
  Write(kNow + 200);  // clocks differ
  EXPECT_TRUE(Readable());
  Write(kNow + 100'000);
  EXPECT_FALSE(Readable());
}

TEST_F(ModelCacheTest, FolderAndFileAreTheOwnersOnly) {
  Write();
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0077, 0u);
}

// /nonexistent is what the passwd file says of accounts that have no home; made by root, it would be one.
TEST_F(ModelCacheTest, AHomeThatDoesNotExistIsNotMade) {
  const std::string home = folder_ + "/home";
  fs::create_directories(folder_);
  const absl::Status written = WriteModelFile(home + "/.cache/weft", host_, {});
  EXPECT_EQ(ResultOf(written), WEFT_SYSTEM_ERROR);
  EXPECT_NE(written.message().find(home + "/.cache/weft: No such file"), std::string::npos)
      << written;
  EXPECT_FALSE(fs::exists(home));
  fs::create_directory(home);
  EXPECT_TRUE(WriteModelFile(home + "/.cache/weft", host_, {}).ok());
}

TEST_F(ModelCacheTest, WhatOthersMayWriteIsNotBelieved) {
  Write();
  for (const mode_t mode : {0620, 0602, 0666}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_FALSE(Readable()) << std::oct << mode;
  }
  ASSERT_EQ(chmod(path_.c_str(), 0644), 0);
  EXPECT_TRUE(Readable());
}

TEST_F(ModelCacheTest, AnotherUsersFileIsNotBelieved) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  Write();
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  EXPECT_FALSE(Readable());
}

TEST_F(ModelCacheTest, LinksPipesAndFoldersAreNotRead) {
  Write();
  fs::rename(path_, root_ + "/elsewhere");
  fs::create_symlink(root_ + "/elsewhere", path_);
  EXPECT_FALSE(Readable());
  fs::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(Readable());
  fs::remove(path_);
  fs::create_directory(path_);
  EXPECT_FALSE(Readable());
  // Nor does a folder in the way make writing a failure that leaves something behind.
  std::ofstream(path_ + "/file") << "x";
  EXPECT_FALSE(WriteModelFile(folder_, host_, {}).ok());
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(ModelCacheTest, WrongMembersAreRefused) {
  Write();
  const std::string good = Text();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::string sync = "\"sync_ns\": 80.0";
  for (const std::string& text :
       {with("\"version\": 2", "\"version\": 3"),
        with("\"version\": 2", "\"version\": \"1\""),
        with("\"version\"", "\"versions\""),
        with(sync, "\"sync_ns\": 0"),
        with(sync, "\"sync_ns\": -1"),
        with(sync, "\"sync_ns\": 1e9"),
        with(sync, "\"sync_ns\": 1e400"),
        with(sync, "\"sync_ns\": NaN"),
        with(sync, "\"sync_ns\": null"),
        with(sync, "\"sync_ns\": \"80\""),
        with(sync, "\"sync_ns\": [80]"),
        with("sync_ns", "sink_ns"),
        with("\"model\": {", "\"model\": [], \"other\": {"),
        with("\"complete\": true", "\"complete\": 1"),
        with("1800000000", "-5"),
        with("1800000000", "1e300"),
        with("1800000000", "1.5"),
        with("\"key\": \"", "\"key\": \"x"),
        std::string("[]"),
        std::string("null"),
        std::string("{}"),
        std::string(),
        std::string("\0", 1),
        good.substr(0, good.size() / 2),
        good + good,
        std::string(20'000, ' ') + good,
        std::string(15'000, '['),
        std::string("{\"version\":2,\"model\":") + std::string(10'000, '{')}) {
    Replace(text);
    EXPECT_FALSE(Readable()) << text.substr(0, 300);
  }
  Replace(with("\"model\": {", "\"new\": [1, 2], \"model\": {\"newer\": 3,"));
  EXPECT_TRUE(Readable()) << "members of a later weft are ignored";
}

TEST_F(ModelCacheTest, WhatFuzzedBytesSayIsSane) {
  const uint64_t seed = TestSeed(20261121);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(static_cast<uint32_t>(seed));
  Write();
  const std::string good = Text();
  using std::string_literals::operator""s;
  const std::string likely = "0123456789.-+eE\"{}[]:, \n\0\xff\xc3"s;
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text[at] = likely[random() % likely.size()];
          break;
        case 2:
          text.erase(at, random() % 20);
          if (text.empty()) text = " ";
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
      }
    }
    const absl::StatusOr<StoredModel> stored = ModelFromJson(text);
    if (!stored.ok()) continue;
    ++accepted;
    ASSERT_TRUE(IsSane(stored->model)) << text;
  }
  RecordProperty("accepted", accepted);
  EXPECT_GT(accepted, 0) << "edits of white space and digits leave valid files";
}

TEST_F(ModelCacheTest, WritersAtTheSameTimeLeaveOneWholeFile) {
  constexpr int kWriters = 4;
  constexpr int kRounds = 50;
  Write();
  std::vector<pid_t> children;
  for (int child = 0; child < kWriters; ++child) {
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      MachineModel model;
      model.sync_ns = 10 + child;
      model.futex_ns = 1000 + child;
      bool ok = true;
      for (int round = 0; round < kRounds; ++round) {
        ok = ok && WriteModelFile(folder_, host_,
                                  {.measured_at_s = kNow, .complete = true, .model = model})
                       .ok();
      }
      _exit(ok ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (int round = 0; round < 200; ++round) {
    const std::optional<StoredModel> stored = ReadModelFile(folder_, host_, kNow);
    ASSERT_TRUE(stored.has_value());
    if (stored->model.futex_ns < 2000) {
      ASSERT_EQ(stored->model.futex_ns - 1000, stored->model.sync_ns - 10);
    }
  }
  for (const pid_t pid : children) {
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(FileCount(), 1u);
}

TEST_F(ModelCacheTest, AnyFailingCallIsNoModelAndNothingLeftBehind) {
  for (int k = 1;; ++k) {
    SCOPED_TRACE(k);
    fs::remove_all(folder_);
    bool struck = false;
    bool written = false;
    std::string what;
    {
      const FailingCalls failing(k);
      written = WriteModelFile(folder_, host_,
                               {.measured_at_s = kNow, .complete = true, .model = ZenModel()})
                    .ok();
      struck = failing.struck();
      what = failing.what();
    }
    if (!struck) break;
    EXPECT_TRUE(fs::exists(path_) == written) << what;
    if (fs::exists(folder_)) {
      EXPECT_EQ(FileCount(), written ? 1u : 0u) << what;
    }
  }
  Write();
  for (int k = 1;; ++k) {
    const FailingCalls failing(k);
    const std::optional<StoredModel> stored = ReadModelFile(folder_, host_, kNow);
    if (!failing.struck()) {
      EXPECT_TRUE(stored.has_value());
      break;
    }
    if (stored.has_value()) ExpectSameTimes(stored->model, ZenModel());
  }
}

TEST_F(ModelCacheTest, NoFolderIsNoCache) {
  EXPECT_FALSE(ReadModelFile("", host_, kNow).has_value());
  EXPECT_FALSE(WriteModelFile("", host_, {}).ok());
  // A file where a folder should be.
  std::ofstream(root_ + "/file") << "x";
  const absl::Status written = WriteModelFile(root_ + "/file/weft", host_, {});
  EXPECT_EQ(ResultOf(written), WEFT_SYSTEM_ERROR);
  EXPECT_NE(written.message().find(root_ + "/file"), absl::string_view::npos) << written;
}

class CacheFolderTest : public ::testing::Test {
 protected:
  void TearDown() override {
    Set("HOME", home_);
    Set("XDG_CACHE_HOME", cache_);
  }

  static std::optional<std::string> Get(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }

  static void Set(const char* name, const std::optional<std::string>& value) {
    value ? setenv(name, value->c_str(), 1) : unsetenv(name);
  }

  const std::optional<std::string> home_ = Get("HOME");
  const std::optional<std::string> cache_ = Get("XDG_CACHE_HOME");
};

TEST_F(CacheFolderTest, FollowsTheSpecification) {
  Set("HOME", "/somewhere/x");
  Set("XDG_CACHE_HOME", "/cache");
  EXPECT_EQ(ModelCacheFolder(), "/cache/weft");
  for (const std::optional<std::string>& useless :
       {std::optional<std::string>(), std::optional<std::string>(""),
        std::optional<std::string>("relative")}) {
    Set("XDG_CACHE_HOME", useless);
    EXPECT_EQ(ModelCacheFolder(), "/somewhere/x/.cache/weft");
    Set("HOME", useless);
    EXPECT_EQ(ModelCacheFolder(), "");
    Set("HOME", "/somewhere/x");
  }
}

TEST_F(ModelCacheTest, StaticReadsAndWritesNothing) {
  const LoadedModel loaded = LoadModel("static", host_, folder_, kNow);
  EXPECT_EQ(loaded.origin, ModelOrigin::kStatic);
  ExpectSameTimes(loaded.model, MachineModel());
  EXPECT_EQ(loaded.model.cores, 1.5);
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(ModelCacheTest, AutoMeasuresOnceAndReadsAfterwards) {
  const LoadedModel first = LoadModel("auto", host_, folder_, kNow);
  EXPECT_EQ(first.origin, ModelOrigin::kMeasured);
  EXPECT_EQ(first.path, path_);
  const LoadedModel second = LoadModel("auto", host_, folder_, kNow + 60);
  EXPECT_EQ(second.origin, ModelOrigin::kFile);
  EXPECT_EQ(second.age_s, 60);
  ExpectSameTimes(second.model, first.model);
  EXPECT_EQ(LoadModel("measure", host_, folder_, kNow + 120).origin, ModelOrigin::kMeasured);
  EXPECT_EQ(LoadModel("auto", host_, folder_, kNow + 120).age_s, 0);
}

TEST_F(ModelCacheTest, AutoWithoutAFolderMeasures) {
  const LoadedModel loaded = LoadModel("auto", host_, "", kNow);
  EXPECT_EQ(loaded.origin, ModelOrigin::kMeasured);
  EXPECT_EQ(loaded.path, "");
  EXPECT_TRUE(IsSane(loaded.model));
}

}  // namespace
}  // namespace weft::test

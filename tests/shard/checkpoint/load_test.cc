// What a load chooses, takes and refuses: a directory that changes meanwhile, files that may not be read, directories that were renamed, another optimizer, names,
// values of ranks that are not there.
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/loader.h"
#include "tests/shard/checkpoint/job_runs.h"
#include "tests/shard/checkpoint/made_up_state.h"
#include "tests/shard/checkpoint/watched_files.h"
#include "tests/shard/ranks.h"
#include "tests/shard/saved_state.h"
#include "tests/sim/sim_files.h"

namespace weft {
namespace {

using test::MadeUpModel;
using test::MadeUpRanks;
using test::MadeUpState;
using test::WatchedFiles;
using testing::HasSubstr;

constexpr int64_t kTimeoutNs = 60'000'000'000;

// Whether one rank has all of the model in `state`, which was made of another one with the same tensors.
bool HasAllOf(MadeUpState& state, const MadeUpModel& model) {
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    for (int number = 0; number < WEFT_SHARD_STATE_KINDS; ++number) {
      const auto kind = static_cast<weft_shard_state_kind_t>(number);
      const std::string& expected = model.contents[i][kind];
      if (!model.tensors[i].Has(kind) || expected.empty()) continue;
      const absl::StatusOr<StatePart> part = state.Part(i, kind);
      if (!part.ok() || std::memcmp(part->data, expected.data(), expected.size()) != 0)
        return false;
    }
  }
  return true;
}

// ---- a run that saves there meanwhile -------------------------------------------------------------

// A run that keeps one checkpoint commits another, and another, before any two calls of a load: there is never none.
TEST(CheckpointLoad, ADirectoryThatChangesMeanwhileHasAWholeCheckpointAtAnyCall) {
  const MadeUpModel models[] = {MadeUpModel(1, 3), MadeUpModel(2, 3), MadeUpModel(3, 3),
                                MadeUpModel(4, 3)};
  int calls = 0;
  for (const int apart : {1, 2, 5}) {
    bool changed_all = true;
    for (int at = 1; changed_all; ++at) {
      test::SimFiles disk;
      int64_t step = 0;
      const auto save_next = [&] {
        MadeUpRanks ranks(models[step], 1);
        ++step;
        ASSERT_TRUE(ranks.Save(disk, "/c", {.step = step, .retention = {.last = 1}}).ok());
      };
      save_next();
      int call = 0;
      WatchedFiles files(disk, [&](const std::string&) {
        ++call;
        if (call == at || call == at + apart || call == at + 2 * apart) save_next();
        return absl::OkStatus();
      });
      ExpectAllOk(RunRanks(
          GroupKind::kLocal, 1, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            MadeUpState state(models[0], 0, 1, 0);
            state.Clear();
            WEFT_ASSIGN_OR_RETURN(
                const SavedCheckpoint loaded,
                LoadCheckpoint(
                    *group, files, {{"", &state}},
                    {.root = "/c", .kinds = WEFT_SHARD_STATE_ALL, .timeout_ns = kTimeoutNs}));
            EXPECT_TRUE(HasAllOf(state, models[loaded.manifest().step - 1]))
                << "step " << loaded.manifest().step;
            return absl::OkStatus();
          }));
      ASSERT_FALSE(HasFailure()) << "at call " << at << ", " << apart << " apart";
      changed_all = call >= at;
      ++calls;
    }
  }
  EXPECT_GT(calls, 15);
}

TEST(CheckpointLoad, FilesThatMayNotBeReadAreNoDamage) {
  test::SimFiles disk;
  const MadeUpModel model(1, 3);
  MadeUpRanks ranks(model, 1);
  ASSERT_TRUE(ranks.Save(disk, "/c", {.step = 1}).ok());
  ASSERT_TRUE(ranks.Save(disk, "/c", {.step = 2}).ok());
  const std::string forbidden[] = {"/manifest.json", "/rank-00000.safetensors", "/done-00000.json"};
  for (const std::string& name : forbidden) {
    for (const bool damaged_too : {false, true}) {
      const std::unique_ptr<test::SimFiles> copy = disk.Copy();
      if (damaged_too) copy->Truncate("/c/step-00000002/manifest.json", 10);
      WatchedFiles files(*copy, [&](const std::string& path) {
        return path.ends_with(name) ? FileError(EACCES, StrCat("opening ", path))
                                    : absl::OkStatus();
      });
      ExpectAllOk(RunRanks(
          GroupKind::kLocal, 1, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            MadeUpState state(model, 0, 1, 0);
            const absl::Status loaded =
                LoadCheckpoint(
                    *group, files, {{"", &state}},
                    {.root = "/c", .kinds = WEFT_SHARD_STATE_ALL, .timeout_ns = kTimeoutNs})
                    .status();
            EXPECT_EQ(ResultOf(loaded), WEFT_SYSTEM_ERROR) << loaded;
            EXPECT_THAT(std::string(loaded.message()),
                        testing::AllOf(HasSubstr("none of the 2 checkpoints in /c could be read"),
                                       HasSubstr("Permission denied")));
            return absl::OkStatus();
          }));
    }
  }
}

// ---- directories ---------------------------------------------------------------------------------

void SaveOneTensor(Files& files, const std::string& directory, int64_t step, float value) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto checkpoint,
                              Checkpoint::Create(group, files, InDirectory(directory)));
        std::vector<float> a(3, value);
        WEFT_RETURN_IF_ERROR(checkpoint->AddTensor({.name = "a", .shape = {3}}, 0, 3, a.data()));
        return checkpoint->Save(step, Checkpoint::How::kForeground);
      }));
}

// What loading `step`, or the latest, says; `value` is that of the tensor then.
absl::StatusOr<Checkpoint::Loaded> LoadOneTensor(Files& files, const std::string& directory,
                                                 int64_t step, float* value) {
  absl::StatusOr<Checkpoint::Loaded> loaded;
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto checkpoint,
                              Checkpoint::Create(group, files, InDirectory(directory)));
        std::vector<float> a(3, -1);
        WEFT_RETURN_IF_ERROR(checkpoint->AddTensor({.name = "a", .shape = {3}}, 0, 3, a.data()));
        auto own = checkpoint->Load(step, WEFT_SHARD_STATE_ALL);
        if (rank != 0) return absl::OkStatus();
        *value = a[0];
        loaded = std::move(own);
        return absl::OkStatus();
      }));
  return loaded;
}

TEST(CheckpointLoad, ADirectoryThatWasRenamedIsLoaded) {
  test::SimFiles files;
  SaveOneTensor(files, "/c", 10, 1);
  SaveOneTensor(files, "/c", 11, 2);
  float value = 0;
  // By the name of another step: names tell which is the latest.
  ASSERT_TRUE(files.Rename("/c/step-00000010", "/c/step-00000020.r5").ok());
  absl::StatusOr<Checkpoint::Loaded> loaded = LoadOneTensor(files, "/c", -1, &value);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->step, 10);
  EXPECT_EQ(value, 1);
  loaded = LoadOneTensor(files, "/c", 20, &value);
  EXPECT_EQ(ResultOf(loaded.status()), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(std::string(loaded.status().message()),
              HasSubstr("/c/step-00000020.r5 is of step 10, and step 20 was asked for"));
  // By one of no step: it is none of those in /c, and is one by itself.
  ASSERT_TRUE(files.Rename("/c/step-00000020.r5", "/c/best").ok());
  loaded = LoadOneTensor(files, "/c", -1, &value);
  EXPECT_EQ(loaded->step, 11);
  for (const int64_t step : {-1, 10}) {
    loaded = LoadOneTensor(files, "/c/best", step, &value);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(loaded->step, 10);
    EXPECT_EQ(loaded->path, "/c/best");
    EXPECT_EQ(value, 1);
  }
  EXPECT_EQ(ResultOf(LoadOneTensor(files, "/c/best", 11, &value).status()), WEFT_INVALID_ARGUMENT);
  WatchedFiles forbidden(files, [&](const std::string& path) {
    return path.ends_with("/manifest.json") ? FileError(EACCES, StrCat("opening ", path))
                                            : absl::OkStatus();
  });
  EXPECT_EQ(ResultOf(LoadOneTensor(forbidden, "/c/best", -1, &value).status()), WEFT_SYSTEM_ERROR);
  // What is saved in it later counts before it.
  SaveOneTensor(files, "/c/best", 12, 3);
  EXPECT_EQ(LoadOneTensor(files, "/c/best", -1, &value)->step, 12);
  EXPECT_EQ(value, 3);
}

TEST(CheckpointLoad, ARelativeDirectoryStaysWhereItWasWhenItWasGiven) {
  std::string top = testing::TempDir() + "/weft_checkpoint_load_XXXXXX";
  ASSERT_NE(mkdtemp(top.data()), nullptr);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directories(top + "/a");
  std::filesystem::create_directories(top + "/b");
  std::filesystem::current_path(top + "/a");
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 1, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, SystemFiles(),
                                                                  InDirectory("checkpoints//")));
        std::vector<float> a(3, 1);
        WEFT_RETURN_IF_ERROR(checkpoint->AddTensor({.name = "a", .shape = {3}}, 0, 3, a.data()));
        WEFT_RETURN_IF_ERROR(checkpoint->Save(1, Checkpoint::How::kForeground));
        std::filesystem::current_path(top + "/b");
        WEFT_RETURN_IF_ERROR(checkpoint->Save(2, Checkpoint::How::kForeground));
        WEFT_ASSIGN_OR_RETURN(const Checkpoint::Loaded loaded,
                              checkpoint->Load(-1, WEFT_SHARD_STATE_ALL));
        EXPECT_EQ(loaded.step, 2);
        EXPECT_EQ(std::filesystem::path(loaded.path),
                  std::filesystem::canonical(top) / "a/checkpoints/step-00000002");
        return absl::OkStatus();
      }));
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::is_empty(top + "/b"));
  std::filesystem::remove_all(top);
}

// Written by the code before version 2, of a model of this seed: values in the texts, nothing of optimizers.
TEST(CheckpointLoad, ACheckpointOfVersion1IsLoaded) {
  const MadeUpModel model(1, 4);
  const std::string path = WEFT_CHECKPOINT_OF_VERSION_1;
  const auto saved = SavedCheckpoint::Open(SystemFiles(), path);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_TRUE(saved->VerifyAll().ok());
  EXPECT_TRUE(saved->manifest().optimizers.empty());
  ASSERT_EQ(saved->manifest().values.size(), 2u);
  EXPECT_EQ(*saved->Value(saved->manifest().values[0]), "0123456789");
  EXPECT_EQ(*saved->Value(saved->manifest().values[1]), std::string(3000, 'b'));
  for (const int loaders : {1, 2, 3}) {
    MadeUpRanks to(model, loaders);
    to.Clear();
    const absl::Status restored = to.Restore(SystemFiles(), path);
    ASSERT_TRUE(restored.ok()) << restored;
    EXPECT_EQ(to.Difference(), "");
  }
}

// ---- optimizers ----------------------------------------------------------------------------------

StateCase WithOptimizer(weft_optimizer_kind_t kind) {
  return {.preset = WEFT_SHARD_FULL_SHARD, .ranks = 2, .optimizer = StateOptimizer(kind, 0.9)};
}

// What loading all of "/c" says.
absl::Status LoadWith(const StateCase& setup, Files& files) {
  absl::Status loaded;
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, setup.ranks,
      [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
        WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, InDirectory("/c")));
        WEFT_RETURN_IF_ERROR(checkpoint->AddContext("", *context));
        const absl::Status own = checkpoint->Load(-1, WEFT_SHARD_STATE_ALL).status();
        if (rank == 0) loaded = own;
        return checkpoint->Load(-1, WEFT_SHARD_STATE_VALUES).status();
      }));
  return loaded;
}

TEST(CheckpointLoad, MomentsOfOneOptimizerAreNotThoseOfAnother) {
  constexpr weft_optimizer_kind_t kTwoMoments[] = {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_LAMB};
  constexpr weft_optimizer_kind_t kOneMoment[] = {WEFT_OPTIMIZER_SGD, WEFT_OPTIMIZER_LION,
                                                  WEFT_OPTIMIZER_LARS};
  const auto try_all = [](const auto& kinds) {
    for (const weft_optimizer_kind_t saved : kinds) {
      test::SimFiles files;
      TrainAndSave(WithOptimizer(saved), files, Checkpoint::How::kForeground);
      for (const weft_optimizer_kind_t now : kinds) {
        const absl::Status loaded = LoadWith(WithOptimizer(now), files);
        SCOPED_TRACE(StrCat(OptimizerName(saved), " as ", OptimizerName(now)));
        if (saved == now) {
          EXPECT_TRUE(loaded.ok()) << loaded;
          continue;
        }
        EXPECT_EQ(ResultOf(loaded), WEFT_INVALID_ARGUMENT);
        EXPECT_THAT(
            std::string(loaded.message()),
            HasSubstr(StrCat(" that ", OptimizerName(saved),
                             " has made, and this program updates it by ", OptimizerName(now))));
      }
    }
  };
  try_all(kTwoMoments);
  try_all(kOneMoment);
}

TEST(CheckpointLoad, TheManifestHasTheOptimizersNumbers) {
  test::SimFiles files;
  TrainAndSave(WithOptimizer(WEFT_OPTIMIZER_ADAMW), files, Checkpoint::How::kForeground);
  const auto saved = SavedCheckpoint::Open(files, "/c/step-00000003");
  ASSERT_TRUE(saved.ok()) << saved.status();
  const std::vector<SavedGroup>& groups = saved->manifest().optimizers.at("");
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].kind, WEFT_OPTIMIZER_ADAMW);
  const AdamWOptions options = StateOptimizer(WEFT_OPTIMIZER_ADAMW).adamw;
  const auto number = [&](const std::string& name) {
    for (const auto& [known, value] : groups[0].numbers) {
      if (known == name) return value;
    }
    return std::numeric_limits<double>::quiet_NaN();
  };
  EXPECT_EQ(number("weight_decay"), 0.1);
  EXPECT_EQ(number("beta1"), options.beta1);
  EXPECT_EQ(number("beta2"), options.beta2);
  EXPECT_EQ(number("epsilon"), options.epsilon);
  EXPECT_EQ(number("learning_rate_factor"), 1);
}

// A context with a matrix that is trained, or not, by AdamW.
absl::StatusOr<std::unique_ptr<Context>> MakeFrozen(const std::shared_ptr<ProcessGroup>& group,
                                                    bool frozen, std::string_view name = "body") {
  WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
  WEFT_RETURN_IF_ERROR(context->SetOptimizer(StateOptimizer(WEFT_OPTIMIZER_ADAMW)));
  WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "head", {3}).status());
  WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, name, {4, 2}, WEFT_FLOAT32, frozen).status());
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  return context;
}

TEST(CheckpointLoad, AParamThatWasFrozenOrIsIsNamedAsThat) {
  for (const bool frozen : {true, false}) {
    test::SimFiles files;
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 2, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeFrozen(group, frozen));
          WEFT_ASSIGN_OR_RETURN(auto checkpoint,
                                Checkpoint::Create(group, files, InDirectory("/c")));
          WEFT_RETURN_IF_ERROR(checkpoint->AddContext("", *context));
          return checkpoint->Save(1, Checkpoint::How::kForeground);
        }));
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 2, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeFrozen(group, !frozen));
          WEFT_ASSIGN_OR_RETURN(auto checkpoint,
                                Checkpoint::Create(group, files, InDirectory("/c")));
          WEFT_RETURN_IF_ERROR(checkpoint->AddContext("", *context));
          const absl::Status loaded = checkpoint->Load(-1, WEFT_SHARD_STATE_ALL).status();
          EXPECT_EQ(ResultOf(loaded), WEFT_INVALID_ARGUMENT);
          EXPECT_THAT(
              std::string(loaded.message()),
              HasSubstr(frozen
                            ? "has no moment1 of tensor body.weight: the param was frozen when it "
                              "was saved, and is trained now"
                            : "has a moment1 of tensor body.weight, which this program would "
                              "drop: the param was trained when it was saved, and is frozen"));
          return checkpoint->Load(-1, WEFT_SHARD_STATE_VALUES).status();
        }));
  }
}

// ---- names and values ----------------------------------------------------------------------------

TEST(CheckpointLoad, NamesThatAreNoneAreRefusedWhenTheyAreGiven) {
  test::SimFiles files;
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 1, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, InDirectory("/c")));
        std::vector<float> a(3, 1);
        const auto none = [](const std::string*) {
          return absl::OkStatus();
        };
        const auto nothing = [] {
          return absl::StatusOr<std::string>("");
        };
        const std::pair<std::string, std::string> bad[] = {
            {"caf\xe9", "no UTF-8: \"caf\\xe9\""},
            {"\xed\xa0\x80", "no UTF-8"},
            {"", "empty"},
            {"__metadata__", "that of the metadata of safetensors files"},
            {std::string(kCheckpointNameBytesMax + 1, 'x'), "longer than 4096 bytes"}};
        for (const auto& [name, why] : bad) {
          const absl::Status refused[] = {
              checkpoint->AddTensor({.name = name, .shape = {3}}, 0, 3, a.data()),
              checkpoint->AddValue({.name = name, .save = nothing, .load = none})};
          for (const absl::Status& status : refused) {
            EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT) << status;
            EXPECT_THAT(std::string(status.message()), HasSubstr(why));
          }
        }
        WEFT_ASSIGN_OR_RETURN(auto context, MakeFrozen(group, false));
        EXPECT_EQ(ResultOf(checkpoint->AddContext("caf\xe9", *context)), WEFT_INVALID_ARGUMENT);
        for (const std::string& name : {std::string("имя ✓"), std::string("../x\n\"\\"),
                                        std::string(kCheckpointNameBytesMax, 'x')}) {
          WEFT_RETURN_IF_ERROR(checkpoint->AddTensor({.name = name, .shape = {3}}, 0, 3, a.data()));
        }
        WEFT_RETURN_IF_ERROR(checkpoint->Save(1, Checkpoint::How::kForeground));
        return checkpoint->Load(-1, WEFT_SHARD_STATE_ALL).status();
      }));
}

// What weft logs while it lives.
class LoggedLines {
 public:
  LoggedLines() { SetLogCallback(&LoggedLines::Add, this); }

  ~LoggedLines() { SetLogCallback(nullptr, nullptr); }

  std::string Text() {
    MutexLock lock(mutex_);
    return text_;
  }

 private:
  static void Add(weft_log_level_t, const char* message, void* self) {
    auto* const lines = static_cast<LoggedLines*>(self);
    MutexLock lock(lines->mutex_);
    lines->text_ += StrCat(message, "\n");
  }

  Mutex mutex_;
  std::string text_ WEFT_GUARDED_BY(mutex_);
};

class CheckpointValues : public testing::Test {
 protected:
  // One value of each rank, and `more`, of all; large enough for a file.
  void Run(int ranks, bool more,
           const std::function<absl::Status(int rank, Checkpoint&, const std::string& own)>& body) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, ranks,
        [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto checkpoint,
                                Checkpoint::Create(group, files_, InDirectory("/c")));
          std::string own = test::MadeUpValue(rank);
          std::string all = "all";
          const auto calls = [](std::string name, bool per_rank, std::string* value) -> ValueCalls {
            return {.name = std::move(name),
                    .per_rank = per_rank,
                    .save = [value] { return absl::StatusOr<std::string>(*value); },
                    .load =
                        [value](const std::string* bytes) {
                          *value = bytes == nullptr ? "none" : *bytes;
                          return absl::OkStatus();
                        }};
          };
          WEFT_RETURN_IF_ERROR(checkpoint->AddValue(calls("rng", true, &own)));
          if (more) WEFT_RETURN_IF_ERROR(checkpoint->AddValue(calls("place", false, &all)));
          return body(rank, *checkpoint, own);
        }));
  }

  void Save(int ranks, int64_t step) {
    Run(ranks, true, [&](int, Checkpoint& checkpoint, const std::string&) {
      return checkpoint.Save(step, Checkpoint::How::kBackground);
    });
  }

  test::SimFiles files_;
};

TEST_F(CheckpointValues, OfRanksThatAreGoneAreNamedAndCanBeRead) {
  Save(4, 1);
  {
    LoggedLines lines;
    Run(2, false, [&](int rank, Checkpoint& checkpoint, const std::string& own) -> absl::Status {
      EXPECT_EQ(ResultOf(checkpoint.LoadedValue("rng", 0).status()), WEFT_BAD_STATE);
      WEFT_RETURN_IF_ERROR(checkpoint.Load(-1, WEFT_SHARD_STATE_ALL).status());
      EXPECT_EQ(own, test::MadeUpValue(rank));
      for (int of = 0; of < 4; ++of)
        EXPECT_EQ(**checkpoint.LoadedValue("rng", of), test::MadeUpValue(of));
      EXPECT_EQ(**checkpoint.LoadedValue("place", -1), "all");
      EXPECT_EQ(*checkpoint.LoadedValue("rng", 4), std::nullopt);
      EXPECT_EQ(*checkpoint.LoadedValue("rng", -1), std::nullopt);
      return absl::OkStatus();
    });
    EXPECT_THAT(
        lines.Text(),
        HasSubstr("checkpoint /c/step-00000001 has values that no rank was given; value rng "
                  "of ranks 2, 3, which this group has not; value place, which was not "
                  "added"));
  }
  LoggedLines lines;
  Run(4, true, [](int, Checkpoint& checkpoint, const std::string&) {
    return checkpoint.Load(-1, WEFT_SHARD_STATE_ALL).status();
  });
  EXPECT_EQ(lines.Text(), "");
}

// On all ranks, before any is given a value of it.
TEST_F(CheckpointValues, ThatAreDamagedSendAllRanksToTheOneBefore) {
  Save(2, 1);
  Save(2, 2);
  files_.Corrupt("/c/step-00000002.r1/values-00001.bin", 700, 1);
  Run(2, true, [&](int rank, Checkpoint& checkpoint, const std::string& own) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(const Checkpoint::Loaded loaded,
                          checkpoint.Load(-1, WEFT_SHARD_STATE_ALL));
    EXPECT_EQ(loaded.step, 1);
    EXPECT_EQ(own, test::MadeUpValue(rank));
    return absl::OkStatus();
  });
  ASSERT_TRUE(files_.Remove("/c/step-00000001/values-00000.bin").ok());
  Run(2, true, [&](int, Checkpoint& checkpoint, const std::string&) -> absl::Status {
    EXPECT_EQ(ResultOf(checkpoint.Load(-1, WEFT_SHARD_STATE_ALL).status()), WEFT_CORRUPT);
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace weft

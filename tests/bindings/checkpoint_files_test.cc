// Models between checkpoints and other programs' files, through checkpoint_files.h: what comes out is what was saved, as asked for, or nothing.
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/bindings/checkpoint_calls.h"
#include "tests/bindings/checkpoint_model.h"
#include "tests/bindings/local_threads.h"

namespace weft::test::checkpoint_files_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr size_t kCount = CheckpointModel::kRows * CheckpointModel::kColumns;

weft_checkpoint_copied_t Copied() {
  weft_checkpoint_copied_t copied = {};
  copied.struct_size = sizeof(copied);
  return copied;
}

std::vector<std::string> Inside(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  return names;
}

class CheckpointFilesInterface : public CheckpointFolder {
 protected:
  // By three ranks, after as many steps of training; of the model's "weight", 11 x 7 numbers, and an integer "more".
  void SaveSteps(int steps) {
    OnLocalRanks(3, [&](int rank, weft_group_t group) {
      const CheckpointModel model(group, WEFT_SHARD_FULL_SHARD);
      const weft_checkpoint_t checkpoint = CreateCheckpoint(group, Directory());
      EXPECT_EQ(weft_checkpoint_add_context(checkpoint, nullptr, model.context), WEFT_SUCCESS);
      EXPECT_EQ(AddMore(checkpoint, &more_), WEFT_SUCCESS);
      for (int step = 1; step <= steps; ++step) {
        model.Step(step);
        EXPECT_EQ(Save(checkpoint, step), WEFT_SUCCESS) << weft_last_error();
        const std::vector<float> values = model.Read();
        if (rank == 0) saved_.push_back(values);
      }
      EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
    });
  }

  static weft_result_t AddMore(weft_checkpoint_t checkpoint, int32_t* more) {
    weft_checkpoint_tensor_t tensor = {};
    tensor.struct_size = sizeof(tensor);
    tensor.name = "more";
    tensor.dtype = WEFT_INT32;
    tensor.count = 1;
    tensor.data = more;
    return weft_checkpoint_add_tensor(checkpoint, &tensor);
  }

  weft_checkpoint_export_config_t ExportTo(const std::string& target) {
    source_ = Directory();
    target_ = target;
    weft_checkpoint_export_config_t config = {};
    config.struct_size = sizeof(config);
    config.source = source_.c_str();
    config.target = target_.c_str();
    return config;
  }

  // What two ranks have of "weight" after that load.
  std::vector<float> LoadedFrom(const std::string& source, uint32_t flags,
                                const char* name = "weight") {
    std::vector<float> loaded_values;
    OnLocalRanks(2, [&](int rank, weft_group_t group) {
      const CheckpointModel model(group, WEFT_SHARD_ZERO1);
      const weft_checkpoint_t checkpoint = CreateCheckpoint(group, folder_ + "/unused");
      EXPECT_EQ(weft_checkpoint_add_context(checkpoint, nullptr, model.context), WEFT_SUCCESS);
      const char* const own = "weight";
      weft_checkpoint_load_config_t config = {};
      config.struct_size = sizeof(config);
      config.flags = WEFT_CHECKPOINT_VALUES_ONLY | flags;
      config.source = source.c_str();
      config.names = &own;
      config.saved_names = &name;
      config.name_count = 1;
      weft_checkpoint_loaded_t loaded = {};
      loaded.struct_size = sizeof(loaded);
      EXPECT_EQ(weft_checkpoint_load(checkpoint, &config, &loaded), WEFT_SUCCESS)
          << weft_last_error();
      EXPECT_EQ(loaded.found, 1);
      const std::vector<float> values = model.Read();
      if (rank == 0) loaded_values = values;
      EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
    });
    return loaded_values;
  }

  int32_t more_ = 5;
  std::vector<std::vector<float>> saved_;  // by step
  std::string source_, target_;
};

// To nearest even, as docs/checkpointing.md promises.
float AsBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u);
}

TEST_F(CheckpointFilesInterface, WhatIsExportedIsImportedAgain) {
  SaveSteps(2);
  const std::string file = folder_ + "/model.safetensors";
  weft_checkpoint_export_config_t config = ExportTo(file);
  weft_checkpoint_copied_t copied = Copied();
  ASSERT_EQ(weft_checkpoint_export(&config, &copied), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(copied.checkpoint, Directory() + "/step-00000002");
  EXPECT_EQ(copied.step, 2);
  EXPECT_EQ(copied.tensor_count, 2u);
  EXPECT_EQ(copied.value_bytes, kCount * sizeof(float) + sizeof(int32_t));
  EXPECT_EQ(copied.file_count, 1u);
  EXPECT_EQ(LoadedFrom(file, 0), saved_.back());

  const std::string directory = folder_ + "/others";
  weft_checkpoint_import_config_t import = {};
  import.struct_size = sizeof(import);
  import.source = file.c_str();
  import.directory = directory.c_str();
  import.step = 9;
  ASSERT_EQ(weft_checkpoint_import(&import, &copied), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(copied.checkpoint, directory + "/step-00000009");
  EXPECT_EQ(copied.step, 9);
  EXPECT_EQ(copied.tensor_count, 2u);
  EXPECT_EQ(copied.value_bytes, kCount * sizeof(float) + sizeof(int32_t));
  EXPECT_EQ(copied.file_count, 1u);
  EXPECT_EQ(LoadedFrom(directory, 0), saved_.back());
  // Again, it is another run's; and nobody need be told.
  ASSERT_EQ(weft_checkpoint_import(&import, nullptr), WEFT_SUCCESS) << weft_last_error();
  EXPECT_THAT(Inside(directory), testing::IsSupersetOf({"step-00000009", "step-00000009.r1"}));
}

TEST_F(CheckpointFilesInterface, NamesAndTypesAreThoseThatWereAskedFor) {
  SaveSteps(1);
  const std::string file = folder_ + "/model.safetensors";
  weft_checkpoint_export_config_t config = ExportTo(file);
  const char* const names[] = {"weight", "more"};
  const char* const file_names[] = {"model.weight", nullptr};
  config.names = names;
  config.file_names = file_names;
  config.name_count = 2;
  config.floats_as = WEFT_BFLOAT16;
  weft_checkpoint_copied_t copied = Copied();
  ASSERT_EQ(weft_checkpoint_export(&config, &copied), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(copied.tensor_count, 1u);
  EXPECT_EQ(copied.value_bytes, kCount * 2);
  std::vector<float> expected;
  for (const float value : saved_.back())
    expected.push_back(AsBfloat16(value));
  EXPECT_NE(expected, saved_.back());
  EXPECT_EQ(LoadedFrom(file, WEFT_CHECKPOINT_WHOLE | WEFT_CHECKPOINT_CONVERT, "model.weight"),
            expected);
}

TEST_F(CheckpointFilesInterface, SeveralFilesHaveAnIndex) {
  SaveSteps(1);
  const std::string folder = folder_ + "/model";
  weft_checkpoint_export_config_t config = ExportTo(folder);
  config.shard_bytes = kCount * sizeof(float);
  weft_checkpoint_copied_t copied = Copied();
  ASSERT_EQ(weft_checkpoint_export(&config, &copied), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(copied.file_count, 2u);
  EXPECT_THAT(Inside(folder), UnorderedElementsAre("model-00001-of-00002.safetensors",
                                                   "model-00002-of-00002.safetensors",
                                                   "model.safetensors.index.json"));
  EXPECT_EQ(LoadedFrom(folder, 0), saved_.back());
  // What is there is never replaced.
  EXPECT_EQ(weft_checkpoint_export(&config, &copied), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(weft_last_error(), HasSubstr("exists already"));
  const std::string index = folder + "/model.safetensors.index.json";
  const std::string directory = folder_ + "/others";
  weft_checkpoint_import_config_t import = {};
  import.struct_size = sizeof(import);
  import.source = index.c_str();
  import.directory = directory.c_str();
  ASSERT_EQ(weft_checkpoint_import(&import, &copied), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(copied.file_count, 2u);
  EXPECT_EQ(LoadedFrom(directory, 0), saved_.back());
}

TEST_F(CheckpointFilesInterface, TheLatestThatIsWholeIsMeant) {
  SaveSteps(2);
  {
    std::fstream file(Directory() + "/step-00000002/rank-00000.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const int last = file.get();
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(last ^ 1));
    ASSERT_TRUE(file.good());
  }
  const std::string file = folder_ + "/model.safetensors";
  weft_checkpoint_export_config_t config = ExportTo(file);
  weft_checkpoint_copied_t copied = Copied();
  ASSERT_EQ(weft_checkpoint_export(&config, &copied), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(copied.checkpoint, Directory() + "/step-00000001");
  EXPECT_EQ(LoadedFrom(file, 0), saved_.front());
  // One that is named is no other one.
  const std::string damaged = Directory() + "/step-00000002";
  const std::string second = folder_ + "/second.safetensors";
  config = ExportTo(second);
  config.source = damaged.c_str();
  EXPECT_EQ(weft_checkpoint_export(&config, &copied), WEFT_CORRUPT);
  EXPECT_THAT(weft_last_error(), HasSubstr("rank-00000.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(second));
}

TEST_F(CheckpointFilesInterface, WhatIsRefusedLeavesNothing) {
  SaveSteps(1);
  const std::vector<std::string> before = Inside(folder_);
  weft_checkpoint_export_config_t config = ExportTo(folder_ + "/model.safetensors");
  weft_checkpoint_copied_t copied = Copied();
  const auto refused = [&](const char* why, std::vector<const char*> names,
                           std::vector<const char*> file_names) {
    config.names = names.data();
    config.file_names = file_names.data();
    config.name_count = names.size();
    EXPECT_EQ(weft_checkpoint_export(&config, &copied), WEFT_INVALID_ARGUMENT);
    EXPECT_THAT(weft_last_error(), HasSubstr(why));
    EXPECT_EQ(copied.checkpoint, nullptr);
  };
  refused("has no tensor wieght, which was to be called w", {"wieght"}, {"w"});
  refused("has no tensor wieght, which was to be left out", {"wieght"}, {nullptr});
  refused("would be called more", {"weight"}, {"more"});
  refused("__metadata__", {"weight"}, {"__metadata__"});
  refused("UTF-8", {"weight"}, {"\xff"});
  config.name_count = 0;
  const std::string nowhere = folder_ + "/a/b";
  config.target = nowhere.c_str();
  EXPECT_EQ(weft_checkpoint_export(&config, &copied), WEFT_SYSTEM_ERROR);
  EXPECT_THAT(weft_last_error(), HasSubstr(folder_ + "/a"));
  EXPECT_EQ(Inside(folder_), before);
}

TEST_F(CheckpointFilesInterface, NothingIsImportedWhereAJobSaves) {
  SaveSteps(1);
  const std::string file = folder_ + "/model.safetensors";
  weft_checkpoint_export_config_t config = ExportTo(file);
  ASSERT_EQ(weft_checkpoint_export(&config, nullptr), WEFT_SUCCESS) << weft_last_error();
  OnLocalRanks(1, [&](int, weft_group_t group) {
    const CheckpointModel model(group, WEFT_SHARD_FULL_SHARD);
    const weft_checkpoint_t checkpoint = CreateCheckpoint(group, Directory());
    EXPECT_EQ(weft_checkpoint_add_context(checkpoint, nullptr, model.context), WEFT_SUCCESS);
    EXPECT_EQ(Save(checkpoint, 2), WEFT_SUCCESS) << weft_last_error();
    weft_checkpoint_import_config_t import = {};
    import.struct_size = sizeof(import);
    import.source = file.c_str();
    import.directory = source_.c_str();
    EXPECT_EQ(weft_checkpoint_import(&import, nullptr), WEFT_BAD_STATE);
    EXPECT_THAT(weft_last_error(), HasSubstr("checkpoint_import: "));
    // Whoever exports only reads.
    const std::string second = folder_ + "/second.safetensors";
    config.target = second.c_str();
    EXPECT_EQ(weft_checkpoint_export(&config, nullptr), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
    EXPECT_EQ(weft_checkpoint_import(&import, nullptr), WEFT_SUCCESS) << weft_last_error();
  });
}

TEST_F(CheckpointFilesInterface, AnInterruptLeavesNothing) {
  SaveSteps(1);
  const std::string file = folder_ + "/model.safetensors";
  weft_checkpoint_export_config_t config = ExportTo(file);
  ASSERT_EQ(weft_checkpoint_export(&config, nullptr), WEFT_SUCCESS) << weft_last_error();
  const std::vector<std::string> before = Inside(folder_);
  ASSERT_EQ(weft_set_interrupt([](void*) { return 1; }, nullptr, 0), WEFT_SUCCESS);
  const std::string folder = folder_ + "/model";
  config = ExportTo(folder);
  config.shard_bytes = 1;
  EXPECT_EQ(weft_checkpoint_export(&config, nullptr), WEFT_INTERRUPTED);
  const std::string directory = folder_ + "/others";
  weft_checkpoint_import_config_t import = {};
  import.struct_size = sizeof(import);
  import.source = file.c_str();
  import.directory = directory.c_str();
  EXPECT_EQ(weft_checkpoint_import(&import, nullptr), WEFT_INTERRUPTED);
  ASSERT_EQ(weft_set_interrupt(nullptr, nullptr, 0), WEFT_SUCCESS);
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_TRUE(!std::filesystem::exists(directory) || Inside(directory).empty());
  EXPECT_EQ(weft_checkpoint_import(&import, nullptr), WEFT_SUCCESS) << weft_last_error();
}

}  // namespace
}  // namespace weft::test::checkpoint_files_test

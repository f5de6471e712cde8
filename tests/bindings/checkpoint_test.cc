// Checkpoints through checkpoint.h, in files of the system: saved by some ranks under one preset, loaded by others under another.
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include <gmock/gmock.h>

#include "tests/bindings/checkpoint_calls.h"
#include "tests/bindings/checkpoint_model.h"
#include "tests/bindings/local_threads.h"

namespace weft::test::checkpoint_test {
namespace {

using testing::HasSubstr;

constexpr int64_t kRows = CheckpointModel::kRows;

class CheckpointInterface : public CheckpointFolder {};

TEST_F(CheckpointInterface, TrainingGoesOnUnderAnotherPreset) {
  std::vector<float> whole, resumed;
  OnLocalRanks(3, [&](int rank, weft_group_t group) {
    const CheckpointModel model(group, WEFT_SHARD_FULL_SHARD);
    const weft_checkpoint_t checkpoint = CreateCheckpoint(group, Directory(), 2);
    EXPECT_EQ(weft_checkpoint_add_context(checkpoint, nullptr, model.context), WEFT_SUCCESS);
    EXPECT_EQ(Loaded(checkpoint).found, 0);
    for (int step = 1; step <= 6; ++step) {
      model.Step(step);
      if (step <= 4) {
        EXPECT_EQ(Save(checkpoint, step, step % 2 == 0), WEFT_SUCCESS) << weft_last_error();
      }
    }
    EXPECT_EQ(weft_checkpoint_wait(checkpoint, 0), WEFT_SUCCESS) << weft_last_error();
    int ended = 0;
    EXPECT_EQ(weft_checkpoint_test(checkpoint, &ended), WEFT_SUCCESS);
    EXPECT_EQ(ended, 1);
    const std::vector<float> values = model.Read();
    if (rank == 0) whole = values;
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
  });
  EXPECT_TRUE(std::filesystem::exists(Directory() + "/step-00000004/manifest.json"));
  EXPECT_FALSE(std::filesystem::exists(Directory() + "/step-00000002"));
  OnLocalRanks(3, [&](int rank, weft_group_t group) {
    const CheckpointModel model(group, WEFT_SHARD_ZERO1);
    const weft_checkpoint_t checkpoint = CreateCheckpoint(group, Directory());
    EXPECT_EQ(weft_checkpoint_add_context(checkpoint, nullptr, model.context), WEFT_SUCCESS);
    const weft_checkpoint_loaded_t loaded = Loaded(checkpoint);
    EXPECT_EQ(loaded.found, 1);
    EXPECT_EQ(loaded.step, 4);
    EXPECT_EQ(loaded.ranks, 3);
    EXPECT_EQ(loaded.path, Directory() + "/step-00000004");
    model.Step(5);
    model.Step(6);
    EXPECT_EQ(Save(checkpoint, 6, false), WEFT_SUCCESS) << weft_last_error();
    const std::vector<float> values = model.Read();
    if (rank == 0) resumed = values;
    EXPECT_EQ(Loaded(checkpoint, WEFT_CHECKPOINT_STEP, 3).step, 3);
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
  });
  EXPECT_EQ(whole, resumed);
  // Of the second run.
  EXPECT_TRUE(std::filesystem::exists(Directory() + "/step-00000006.r1/manifest.json"));
}

// What a program passes as `user`.
struct Cursor {
  std::string text;
  int loads = 0;
  bool refuse = false;
};

weft_checkpoint_value_t ValueOf(Cursor* cursor) {
  weft_checkpoint_value_t value = {};
  value.struct_size = sizeof(value);
  value.name = "cursor";
  value.user = cursor;
  value.save = [](void* user, const void** bytes, size_t* count) {
    const auto* const own = static_cast<Cursor*>(user);
    *bytes = own->text.data();
    *count = own->text.size();
    return WEFT_SUCCESS;
  };
  value.load = [](void* user, const void* bytes, size_t count) {
    auto* const own = static_cast<Cursor*>(user);
    ++own->loads;
    own->text = bytes == nullptr ? "none" : std::string(static_cast<const char*>(bytes), count);
    if (!own->refuse) return WEFT_SUCCESS;
    return weft_callback_failed(WEFT_INVALID_ARGUMENT, "the place 17 is not in my text");
  };
  return value;
}

TEST_F(CheckpointInterface, TensorsAndValuesOfTheProgramsOwn) {
  const int64_t shape = 10;
  OnLocalRanks(2, [&](int rank, weft_group_t group) {
    const weft_checkpoint_t checkpoint = CreateCheckpoint(group, Directory());
    std::vector<int64_t> slice(5, rank);
    weft_checkpoint_tensor_t tensor = {};
    tensor.struct_size = sizeof(tensor);
    tensor.name = "table";
    tensor.shape = &shape;
    tensor.ndim = 1;
    tensor.dtype = WEFT_INT64;
    tensor.begin = rank == 0 ? 0 : 5;
    tensor.count = 5;
    tensor.data = slice.data();
    EXPECT_EQ(weft_checkpoint_add_tensor(checkpoint, &tensor), WEFT_SUCCESS) << weft_last_error();
    Cursor cursor{.text = "place 17"};
    const weft_checkpoint_value_t value = ValueOf(&cursor);
    EXPECT_EQ(weft_checkpoint_add_value(checkpoint, &value), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Save(checkpoint, 1, true), WEFT_SUCCESS) << weft_last_error();
    slice.assign(5, 77);  // it has been copied
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
  });
  OnLocalRanks(3, [&](int rank, weft_group_t group) {
    const weft_checkpoint_t checkpoint = CreateCheckpoint(group, Directory());
    std::vector<int64_t> whole(10, -1);
    weft_checkpoint_tensor_t tensor = {};
    tensor.struct_size = sizeof(tensor);
    tensor.name = "table";
    tensor.shape = &shape;
    tensor.ndim = 1;
    tensor.dtype = WEFT_INT64;
    tensor.count = 10;
    tensor.data = whole.data();
    EXPECT_EQ(weft_checkpoint_add_tensor(checkpoint, &tensor), WEFT_SUCCESS);
    Cursor cursor{.refuse = rank == 2};
    const weft_checkpoint_value_t value = ValueOf(&cursor);
    EXPECT_EQ(weft_checkpoint_add_value(checkpoint, &value), WEFT_SUCCESS);
    weft_checkpoint_loaded_t loaded = {};
    loaded.struct_size = sizeof(loaded);
    EXPECT_EQ(weft_checkpoint_load(checkpoint, nullptr, &loaded), WEFT_INVALID_ARGUMENT);
    // Whoever has refused it, and why, on all ranks.
    EXPECT_THAT(weft_last_error(), HasSubstr("the function that loads value cursor answered "
                                             "invalid_argument: the place 17 is not in my text"));
    EXPECT_THAT(weft_last_error(), HasSubstr(rank == 2 ? "the function" : "rank 2: the function"));
    EXPECT_EQ(whole, std::vector<int64_t>(10, -1)) << "written though refused";
    cursor.refuse = false;
    EXPECT_EQ(Loaded(checkpoint).step, 1);
    EXPECT_EQ(cursor.text, "place 17");
    EXPECT_EQ(whole, (std::vector<int64_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1}));
    const void* bytes = nullptr;
    size_t count = 0;
    EXPECT_EQ(weft_checkpoint_value_read(checkpoint, "cursor", -1, &bytes, &count), WEFT_SUCCESS);
    EXPECT_EQ(std::string(static_cast<const char*>(bytes), count), "place 17");
    EXPECT_EQ(weft_checkpoint_value_read(checkpoint, "cursor", 1, &bytes, &count), WEFT_SUCCESS);
    EXPECT_EQ(bytes, nullptr) << "it is no value of each rank";
    EXPECT_EQ(count, 0u);
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
  });
}

TEST_F(CheckpointInterface, AnotherModelIsRefusedWithBothShapes) {
  OnLocalRanks(2, [&](int, weft_group_t group) {
    const CheckpointModel model(group, WEFT_SHARD_NO_SHARD);
    const weft_checkpoint_t checkpoint = CreateCheckpoint(group, Directory());
    EXPECT_EQ(weft_checkpoint_add_context(checkpoint, nullptr, model.context), WEFT_SUCCESS);
    EXPECT_EQ(Save(checkpoint, 1, false), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Save(checkpoint, 1, false), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
    const CheckpointModel other(group, WEFT_SHARD_FULL_SHARD, kRows + 1);
    const weft_checkpoint_t second = CreateCheckpoint(group, Directory());
    EXPECT_EQ(weft_checkpoint_add_context(second, nullptr, other.context), WEFT_SUCCESS);
    weft_checkpoint_loaded_t loaded = {};
    loaded.struct_size = sizeof(loaded);
    EXPECT_EQ(weft_checkpoint_load(second, nullptr, &loaded), WEFT_INVALID_ARGUMENT);
    EXPECT_THAT(
        weft_last_error(),
        HasSubstr(
            "has tensor weight with shape [11, 7], and this model has it with shape [12, 7]"));
    EXPECT_EQ(weft_checkpoint_destroy(second), WEFT_SUCCESS);
  });
}

// A file of others: a header, then bytes.
void WriteTensors(const std::string& path, const std::string& header, const std::string& data) {
  std::ofstream file(path, std::ios::binary);
  const uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << header << data;
}

std::vector<std::string> Names(const char* const* names, size_t count) {
  return {names, names + count};
}

TEST_F(CheckpointInterface, LoadsFilesOfOthersInPartWithOtherNamesAndTypes) {
  ASSERT_TRUE(std::filesystem::create_directory(Directory()));
  // b0 .. b76 as bfloat16, by their upper halves.
  std::string halves;
  for (int i = 0; i < 77; ++i) {
    const auto value = static_cast<float>(i);
    halves.append(reinterpret_cast<const char*>(&value) + 2, 2);
  }
  const std::string folder = folder_ + "/theirs";
  ASSERT_TRUE(std::filesystem::create_directory(folder));
  WriteTensors(folder + "/model-00001-of-00002.safetensors",
               R"({"w":{"dtype":"BF16","shape":[11,7],"data_offsets":[0,154]}})", halves);
  WriteTensors(folder + "/model-00002-of-00002.safetensors",
               R"({"head":{"dtype":"C64","shape":[2],"data_offsets":[0,16]}})",
               std::string(16, 'h'));
  OnLocalRanks(3, [&](int, weft_group_t group) {
    const CheckpointModel model(group, WEFT_SHARD_FULL_SHARD);
    const weft_checkpoint_t checkpoint = CreateCheckpoint(group, Directory());
    EXPECT_EQ(weft_checkpoint_add_context(checkpoint, nullptr, model.context), WEFT_SUCCESS);
    int32_t more = 5;
    weft_checkpoint_tensor_t tensor = {};
    tensor.struct_size = sizeof(tensor);
    tensor.name = "more";
    tensor.dtype = WEFT_INT32;
    tensor.count = 1;
    tensor.data = &more;
    EXPECT_EQ(weft_checkpoint_add_tensor(checkpoint, &tensor), WEFT_SUCCESS);
    const char* const names[] = {"weight"};
    const char* const saved_names[] = {"w"};
    weft_checkpoint_load_config_t config = {};
    config.struct_size = sizeof(config);
    config.source = folder.c_str();
    config.names = names;
    config.saved_names = saved_names;
    config.name_count = 1;
    weft_checkpoint_loaded_t loaded = {};
    loaded.struct_size = sizeof(loaded);
    const auto refused = [&](uint32_t flags, const char* why) {
      config.flags = flags;
      EXPECT_EQ(weft_checkpoint_load(checkpoint, &config, &loaded), WEFT_INVALID_ARGUMENT);
      EXPECT_THAT(weft_last_error(), HasSubstr(why));
    };
    refused(0, "has tensors' values alone");
    refused(WEFT_CHECKPOINT_VALUES_ONLY, "has tensor weight as BF16");
    refused(WEFT_CHECKPOINT_VALUES_ONLY | WEFT_CHECKPOINT_CONVERT, "has no tensor more");
    refused(WEFT_CHECKPOINT_VALUES_ONLY | WEFT_CHECKPOINT_CONVERT | WEFT_CHECKPOINT_PARTIAL |
                WEFT_CHECKPOINT_WHOLE,
            "has tensor head, of shape [2], which this program has not");
    config.flags = WEFT_CHECKPOINT_VALUES_ONLY | WEFT_CHECKPOINT_CONVERT | WEFT_CHECKPOINT_PARTIAL;
    EXPECT_EQ(weft_checkpoint_load(checkpoint, &config, &loaded), WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(loaded.found, 1);
    EXPECT_EQ(loaded.ranks, 2);
    EXPECT_EQ(loaded.path, folder);
    EXPECT_THAT(Names(loaded.unused, loaded.unused_count), testing::ElementsAre("head"));
    EXPECT_THAT(Names(loaded.kept, loaded.kept_count), testing::ElementsAre("more"));
    const std::vector<float> values = model.Read();
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], static_cast<float>(i));
    EXPECT_EQ(more, 5);
    // The steps of this run are its own; and one checkpoint can be meant, whatever it is called.
    EXPECT_EQ(Save(checkpoint, 1), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_barrier(group, nullptr, nullptr), WEFT_SUCCESS);
    std::error_code ignored;
    std::filesystem::copy(Directory() + "/step-00000001", folder_ + "/copied", ignored);
    EXPECT_EQ(weft_barrier(group, nullptr, nullptr), WEFT_SUCCESS);
    weft_checkpoint_load_config_t whole = {};
    whole.struct_size = sizeof(whole);
    const std::string copied = folder_ + "/copied";
    whole.source = copied.c_str();
    EXPECT_EQ(weft_checkpoint_load(checkpoint, &whole, &loaded), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(loaded.step, 1);
    EXPECT_EQ(loaded.path, copied);
    EXPECT_EQ(loaded.unused_count + loaded.kept_count, 0u);
    const std::string none = folder_ + "/none";
    whole.source = none.c_str();
    EXPECT_EQ(weft_checkpoint_load(checkpoint, &whole, &loaded), WEFT_SUCCESS);
    EXPECT_EQ(loaded.found, 0);
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
  });
}

TEST_F(CheckpointInterface, ADirectoryWithoutAParentFailsTheSaveOfAllRanks) {
  OnLocalRanks(2, [&](int, weft_group_t group) {
    const weft_checkpoint_t checkpoint = CreateCheckpoint(group, folder_ + "/a/b");
    EXPECT_EQ(Save(checkpoint, 1, true), WEFT_SYSTEM_ERROR);
    EXPECT_THAT(weft_last_error(), HasSubstr(folder_ + "/a/b"));
    EXPECT_EQ(weft_checkpoint_destroy(checkpoint), WEFT_SUCCESS);
  });
}

}  // namespace
}  // namespace weft::test::checkpoint_test

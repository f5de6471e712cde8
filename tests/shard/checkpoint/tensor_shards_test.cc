// Models in several safetensors files: as others write them, and as they are written for others.
#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/tensor_export.h"
#include "shard/checkpoint/tensor_files.h"
#include "shard/checkpoint/tensor_import.h"
#include "tests/shard/checkpoint/made_up_state.h"
#include "tests/shard/checkpoint/watched_files.h"
#include "tests/sim/sim_files.h"

namespace weft::test::tensor_shards_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kIndex = "/m/model.safetensors.index.json";
constexpr const char* kFirst = "/m/model-00001-of-00002.safetensors";
constexpr const char* kSecond = "/m/model-00002-of-00002.safetensors";

// A safetensors file of that header, and so much data.
std::string FileOf(const std::string& json, size_t data_bytes, char fill = 'x') {
  std::string text(8, '\0');
  for (size_t i = 0; i < 4; ++i)
    text[i] = static_cast<char>(json.size() >> 8 * i & 0xff);
  return text + json + std::string(data_bytes, fill);
}

// One of `count` bytes.
std::string Tensor(const std::string& name, size_t count, size_t begin = 0) {
  return StrCat("\"", name, R"(":{"dtype":"U8","shape":[)", count, R"(],"data_offsets":[)", begin,
                ",", begin + count, "]}");
}

using Contents = std::map<std::string, std::string>;  // by path

void Put(SimFiles& files, const Contents& contents) {
  ASSERT_TRUE(files.MakeDirectory("/m").ok());
  for (const auto& [path, text] : contents) {
    if (path[0] == '/') {
      ASSERT_TRUE(WriteFileAtomically(files, path, text).ok());
    }
  }
}

// A model of two files, of which some may be others.
Contents Model(const Contents& others = {}) {
  Contents model = {
      {kIndex,
       R"({"metadata":{"total_size":7},"weight_map":{)"
       R"("a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})"},
      {kFirst,
       FileOf(R"({"__metadata__":{"format":"pt","by":"one"},)" + Tensor("a", 3) + "}", 3, 'a')},
      {kSecond,
       FileOf(R"({"__metadata__":{"format":"pt","by":"two"},)" + Tensor("b", 4) + "}", 4, 'b')}};
  for (const auto& [path, text] : others) {
    if (text.empty())
      model.erase(path);
    else
      model[path] = text;
  }
  return model;
}

absl::StatusOr<std::string> Import(SimFiles& files, const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(TensorFiles others, OpenTensorFiles(files, path));
  return ImportTensors(files, std::move(others), "/d", 0);
}

// What is said of importing these files, of which nothing is left; "" if they are imported.
std::string Said(const Contents& contents, const std::string& path) {
  SimFiles files;
  Put(files, contents);
  const auto imported = Import(files, path);
  if (imported.ok()) return "";
  EXPECT_EQ(files.List("/").value_or(std::vector<std::string>()), std::vector<std::string>{"m"});
  return std::string(imported.status().message());
}

TEST(TensorShards, AreImportedByTheirIndexOrTheirFolder) {
  const Contents no_index = Model({{kIndex, ""}});
  for (const auto& [contents, path] : std::vector<std::pair<Contents, std::string>>{
           {Model(), kIndex}, {Model(), "/m"}, {no_index, "/m"}}) {
    SimFiles files;
    Put(files, contents);
    const auto imported = Import(files, path);
    ASSERT_TRUE(imported.ok()) << imported.status();
    const auto saved = SavedCheckpoint::Open(files, *imported);
    ASSERT_TRUE(saved.ok());
    ASSERT_TRUE(saved->VerifyAll().ok());
    ASSERT_TRUE(ExportTensors(*saved, files, "/back").ok());
    const std::string back = files.Contents("/back");
    const auto layout = ReadSafetensorsHeader(back, back.size());
    ASSERT_TRUE(layout.ok());
    // Metadata come along; of two that differ the first file's count.
    EXPECT_EQ(layout->metadata, (SafetensorsMetadata{{"format", "pt"}, {"by", "one"}}));
    EXPECT_EQ(back.substr(layout->data_begin), "aaabbbb");
  }
}

TEST(TensorShards, WhatAnIndexDoesNotNameIsReadToo) {
  SimFiles files;
  Put(files,
      Model({{kSecond, FileOf("{" + Tensor("b", 4) + "," + Tensor("more", 2, 4) + "}", 6)}}));
  const auto imported = Import(files, kIndex);
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto saved = SavedCheckpoint::Open(files, *imported);
  ASSERT_TRUE(saved.ok());
  EXPECT_EQ(saved->manifest().tensors.size(), 3u);
}

TEST(TensorShards, WhatIsWrongIsRefusedByFileAndTensor) {
  const auto index = [](const std::string& weights) {
    return Contents{{kIndex, StrCat(R"({"weight_map":{)", weights, "}}")}};
  };
  // Files elsewhere.
  for (const char* const name : {"../x.safetensors", "/etc/x.safetensors", "sub/x.safetensors"}) {
    EXPECT_THAT(Said(Model(index(StrCat(R"("a":")", name, "\""))), "/m"),
                AllOf(HasSubstr(kIndex), HasSubstr("tensor a"), HasSubstr(name)));
  }
  for (const char* const name : {"pytorch_model.bin", "", "..", "config.json"}) {
    EXPECT_THAT(Said(Model(index(StrCat(R"("a":")", name, "\""))), kIndex),
                AllOf(HasSubstr(kIndex), HasSubstr("tensor a"), HasSubstr("no .safetensors file")));
  }
  EXPECT_THAT(Said(Model(index(R"("a":7)")), "/m"),
              AllOf(HasSubstr(kIndex), HasSubstr("tensor a"), HasSubstr("without the name")));
  // A tensor that no file has, or another one.
  EXPECT_THAT(Said(Model(index(R"("none":"model-00001-of-00002.safetensors")")), "/m"),
              AllOf(HasSubstr(kIndex), HasSubstr("tensor none"), HasSubstr("no such tensor")));
  EXPECT_THAT(Said(Model(index(R"("a":"model-00002-of-00002.safetensors")")), "/m"),
              AllOf(HasSubstr(kIndex), HasSubstr("tensor a"), HasSubstr("no such tensor")));
  EXPECT_THAT(Said(Model({{kSecond, ""}}), kIndex),
              AllOf(HasSubstr(kIndex), HasSubstr("tensor b is in model-00002-of-00002.safetensors"),
                    HasSubstr("not there")));
  // The same tensor twice.
  const Contents twice = {
      {kSecond, FileOf("{" + Tensor("b", 4) + "," + Tensor("a", 3, 4) + "}", 7)}};
  EXPECT_THAT(Said(Model(twice), kIndex),
              AllOf(HasSubstr(kFirst), HasSubstr(kSecond), HasSubstr("tensor a is in two files")));
  // An index that is none.
  for (const char* const text : {"{}", "[]", R"({"weight_map":[]})", "{", R"({"weight_map":1})"})
    EXPECT_THAT(Said(Model({{kIndex, text}}), "/m"), HasSubstr(kIndex));
  // Files that are cut off, overlap themselves, have a hole, or no name.
  EXPECT_THAT(Said(Model({{kSecond, FileOf("{" + Tensor("b", 4) + "}", 3)}}), "/m"),
              HasSubstr(kSecond));
  const std::string overlap = FileOf("{" + Tensor("b", 4) + "," + Tensor("c", 3, 2) + "}", 5);
  EXPECT_THAT(Said(Model({{kSecond, overlap}}), "/m"),
              AllOf(HasSubstr(kSecond), HasSubstr("tensor c"), HasSubstr("overlaps tensor b")));
  const std::string hole = FileOf("{" + Tensor("b", 4) + "," + Tensor("c", 3, 5) + "}", 8);
  EXPECT_THAT(Said(Model({{kSecond, hole}}), "/m"),
              AllOf(HasSubstr(kSecond), HasSubstr("a hole of 1 bytes before tensor c")));
  EXPECT_THAT(Said(Model({{kSecond, FileOf("{" + Tensor("", 4) + "}", 4)}}), "/m"),
              AllOf(HasSubstr(kSecond), HasSubstr("without a name")));
  EXPECT_THAT(Said(Model({{kSecond, FileOf(R"({"__metadata__":{"format":1}})", 0)}}), "/m"),
              AllOf(HasSubstr(kSecond), HasSubstr("\"format\"")));
  std::string huge = FileOf("{}", 0);
  huge[4] = '\x7f';  // of a length that no file has
  EXPECT_THAT(Said(Model({{kSecond, huge}}), "/m"), HasSubstr(kSecond));
}

TEST(TensorShards, AFolderMustSayWhichModelItIs) {
  EXPECT_THAT(Said({{"/m/config.json", "{}"}}, "/m"), HasSubstr("no .safetensors file in /m"));
  EXPECT_THAT(Said(Model({{"/m/other.safetensors.index.json", "{}"}}), "/m"),
              AllOf(HasSubstr(kIndex + 3), HasSubstr("other.safetensors.index.json")));
  // Half of a model would be taken for one.
  EXPECT_THAT(Said(Model({{kIndex, ""}, {kFirst, ""}}), "/m"),
              HasSubstr("file 1 of the 2 files of /m/model is not there"));
  EXPECT_THAT(Said(Model({{kIndex, ""}, {kSecond, ""}}), "/m"),
              HasSubstr("file 2 of the 2 files of /m/model is not there"));
  EXPECT_THAT(
      Said(Model({{kIndex, ""}, {"/m/model.safetensors", FileOf("{" + Tensor("a", 3) + "}", 3)}}),
           "/m"),
      HasSubstr("tensor a is in two files"));
  // Names that only look like those of a series.
  EXPECT_EQ(Said({{"/m/a-of-.safetensors", FileOf("{}", 0)},
                  {"/m/-of-2.safetensors", FileOf("{}", 0)},
                  {"/m/a-1-of-x.safetensors", FileOf("{}", 0)},
                  {"/m/.safetensors", FileOf("{}", 0)}},
                 "/m"),
            "");
}

// ---- export --------------------------------------------------------------------------------------

absl::StatusOr<std::vector<std::string>> Export(Files& files, size_t shard_bytes) {
  WEFT_ASSIGN_OR_RETURN(const SavedCheckpoint saved,
                        SavedCheckpoint::Open(files, "/c/step-00000007"));
  return ExportShards(saved, files, "/m", shard_bytes);
}

// Two that write to one folder: the one that finds a file of the other's takes its own back, and no more.
TEST(TensorShards, OfAnotherProgramStay) {
  const MadeUpModel model(1);
  SimFiles disk;
  ASSERT_TRUE(MadeUpRanks(model, 3).Save(disk, "/c", {.step = 7}).ok());
  const std::unique_ptr<SimFiles> alone = disk.Copy();
  const auto names = Export(*alone, 1);
  ASSERT_TRUE(names.ok()) << names.status();
  ASSERT_GT(names->size(), 3U);
  const std::string others = StrCat("/m/", (*names)[2]);
  bool came = false;
  test::WatchedFiles files(disk, [&](const std::string& path) {
    if (came || path.find((*names)[1]) == std::string::npos) return absl::OkStatus();
    came = true;
    return WriteFileAtomically(disk, others, "another's");
  });
  const auto refused = Export(files, 1);
  EXPECT_EQ(ResultOf(refused.status()), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("exists already"));
  EXPECT_EQ(disk.Contents(others), "another's");
  const auto left = disk.List("/m");
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_THAT(*left, testing::ElementsAre((*names)[2]));
}

TEST(TensorShards, AreWrittenAsTransformersHasThemAndReadBack) {
  const MadeUpModel model(1);
  SimFiles whole;
  ASSERT_TRUE(MadeUpRanks(model, 3).Save(whole, "/c", {.step = 7}).ok());
  for (const size_t limit : {size_t{1}, size_t{6001}, size_t{29'000}, size_t{1} << 40}) {
    SCOPED_TRACE(limit);
    const std::unique_ptr<SimFiles> files = whole.Copy();
    const auto names = Export(*files, limit);
    ASSERT_TRUE(names.ok()) << names.status();
    EXPECT_EQ(names->size() == 1, limit == size_t{1} << 40);
    EXPECT_EQ(names->front(), names->size() == 1 ? "model.safetensors"
                                                 : StrCat("model-00001-of-0000", names->size() - 1,
                                                          ".safetensors"));
    EXPECT_EQ(names->size() == 1, names->back() == "model.safetensors");
    size_t tensors = 0;
    for (const std::string& name : *names) {
      if (name.ends_with(".json")) continue;
      const std::string text = files->Contents("/m/" + name);
      const auto layout = ReadSafetensorsHeader(text, text.size());
      ASSERT_TRUE(layout.ok());
      EXPECT_EQ(layout->metadata.at("format"), "pt");
      const size_t of_values =
          layout->entries.size() -
          static_cast<size_t>(
              std::count_if(layout->entries.begin(), layout->entries.end(),
                            [](const SafetensorsEntry& entry) { return entry.count() == 0; }));
      EXPECT_TRUE(text.size() - layout->data_begin <= limit || of_values == 1) << name;
      tensors += layout->entries.size();
    }
    EXPECT_EQ(tensors, model.tensors.size());
    ASSERT_TRUE(files->MakeDirectory("/d").ok());
    const auto imported = Import(*files, "/m");
    ASSERT_TRUE(imported.ok()) << imported.status();
    MadeUpRanks to(model, 2);
    to.Clear();
    ASSERT_TRUE(to.Restore(*files, *imported, WEFT_SHARD_STATE_VALUES).ok());
    EXPECT_EQ(to.Difference(WEFT_SHARD_STATE_VALUES), "");
  }
}

TEST(TensorShards, AreNotWrittenBesideAnotherModel) {
  const MadeUpModel model(1);
  for (const char* const name :
       {"model.safetensors", "model-00001-of-00009.safetensors", "model.safetensors.index.json"}) {
    SimFiles files;
    ASSERT_TRUE(MadeUpRanks(model, 1).Save(files, "/c", {.step = 7}).ok());
    Put(files, {{"/m/config.json", "{}"}, {StrCat("/m/", name), "mine"}});
    const auto refused = Export(files, 5000).status();
    EXPECT_EQ(ResultOf(refused), WEFT_INVALID_ARGUMENT);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(name));
    EXPECT_THAT(files.List("/m").value(), ElementsAre("config.json", name));
  }
  SimFiles files;
  ASSERT_TRUE(MadeUpRanks(model, 1).Save(files, "/c", {.step = 7}).ok());
  Put(files, {{"/m/config.json", "{}"}});
  EXPECT_TRUE(Export(files, 5000).ok());
}

TEST(TensorShards, CutOffAtAnyCallLeaveNothingOrNoIndex) {
  const MadeUpModel model(1, 4);
  SimFiles files;
  ASSERT_TRUE(MadeUpRanks(model, 2).Save(files, "/c", {.step = 7}).ok());
  for (int k = 1;; ++k) {
    for (const bool dies : {false, true}) {
      const std::unique_ptr<SimFiles> disk = files.Copy();
      if (dies)
        disk->DieAt(k);
      else
        disk->FailAt(k, ENOSPC);
      const auto exported = Export(*disk, 10);
      SCOPED_TRACE(disk->what());
      const bool struck = disk->struck();
      // Who finds an index finds all.
      disk->ForEachCrashState(20, static_cast<uint64_t>(k),
                              [&](SimFiles& left, const std::string& what) {
                                SCOPED_TRACE(what);
                                const bool whole = left.Open(kIndex).ok();
                                EXPECT_TRUE(whole || !exported.ok());
                                if (whole) {
                                  EXPECT_TRUE(Import(left, kIndex).ok());
                                }
                              });
      disk->Revive();
      if (!dies && !exported.ok()) {
        EXPECT_THAT(disk->List("/").value(), ElementsAre("c"));
      }
      if (!struck) return;
    }
    ASSERT_LT(k, 1000);
  }
}

}  // namespace
}  // namespace weft::test::tensor_shards_test

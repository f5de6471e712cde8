// The values of a checkpoint in one file, and a checkpoint of one file: every byte comes through, or nothing is left.
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/convert.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/tensor_export.h"
#include "shard/checkpoint/tensor_files.h"
#include "shard/checkpoint/tensor_import.h"
#include "shard/checkpoint/value_copy.h"
#include "tests/shard/checkpoint/made_up_state.h"
#include "tests/sim/sim_files.h"

namespace weft::test::tensor_file_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kFile = "/model.safetensors";
constexpr const char* kSaved = "/c/step-00000007";

absl::Status Export(Files& files, const std::string& path = kSaved) {
  const auto saved = SavedCheckpoint::Open(files, path);
  WEFT_RETURN_IF_ERROR(saved.status());
  return ExportTensors(*saved, files, kFile);
}

absl::StatusOr<std::string> ImportFrom(Files& files, const std::string& path,
                                       const std::string& root, int64_t step,
                                       const BytesDone& done = nullptr) {
  WEFT_ASSIGN_OR_RETURN(TensorFiles others, OpenTensorFiles(files, path));
  return ImportTensors(files, std::move(others), root, step, done);
}

void SaveMadeUp(const MadeUpModel& model, Files& files, int ranks) {
  ASSERT_TRUE(MadeUpRanks(model, ranks).Save(files, "/c", {.step = 7}).ok());
}

// Empty if the file has the model's values, and nothing else.
std::string DifferenceOfFile(const std::string& file, const MadeUpModel& model) {
  const auto layout = ReadSafetensorsHeader(file, file.size());
  if (!layout.ok()) return std::string(layout.status().message());
  std::map<std::string, SafetensorsEntry> entries;
  for (const SafetensorsEntry& entry : layout->entries)
    entries.emplace(entry.name, entry);
  if (entries.size() != model.tensors.size()) return "another number of tensors";
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const SavedTensor& tensor = model.tensors[i];
    const auto found = entries.find(tensor.name);
    if (found == entries.end()) return StrCat("no ", tensor.name);
    const SafetensorsEntry& entry = found->second;
    if (entry.shape != tensor.shape || entry.dtype != tensor.dtype)
      return StrCat("another ", tensor.name);
    if (file.substr(layout->data_begin + entry.begin, entry.end - entry.begin) !=
        model.contents[i][WEFT_SHARD_STATE_VALUE])
      return StrCat("other values of ", tensor.name);
  }
  return "";
}

TEST(TensorExport, IsTheSameFileWhateverTheNumberOfRanks) {
  const MadeUpModel model(1);
  std::string first;
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 70}) {
    SCOPED_TRACE(ranks);
    SimFiles files;
    SaveMadeUp(model, files, ranks);
    const absl::Status exported = Export(files);
    ASSERT_TRUE(exported.ok()) << exported;
    const std::string file = files.Contents(kFile);
    EXPECT_EQ(DifferenceOfFile(file, model), "");
    if (first.empty()) first = file;
    EXPECT_EQ(file, first);
  }
}

// Tensors that are longer than a piece, and pieces of several tensors.
TEST(TensorExport, AndImportGoPieceByPiece) {
  const MadeUpModel model(2, 700'001);
  SimFiles files;
  SaveMadeUp(model, files, 3);
  ASSERT_TRUE(Export(files).ok());
  ASSERT_GT(files.Contents(kFile).size(), kPieceBytes);
  EXPECT_EQ(DifferenceOfFile(files.Contents(kFile), model), "");
  ASSERT_TRUE(ImportFrom(files, kFile, "/d", 0).ok());
  MadeUpRanks ranks(model, 3, 100'000);
  ranks.Clear();
  const absl::Status restored = ranks.Restore(files, "/d/step-00000000", WEFT_SHARD_STATE_VALUES);
  ASSERT_TRUE(restored.ok()) << restored;
  EXPECT_EQ(ranks.Difference(WEFT_SHARD_STATE_VALUES), "");
}

TEST(TensorExport, SaysHowFarItIs) {
  const MadeUpModel model(1);
  SimFiles files;
  SaveMadeUp(model, files, 2);
  const auto saved = SavedCheckpoint::Open(files, kSaved);
  ASSERT_TRUE(saved.ok());
  size_t done = 0;
  const auto add = [&](size_t bytes) {
    done += bytes;
  };
  ASSERT_TRUE(ExportTensors(*saved, files, kFile, add).ok());
  EXPECT_EQ(done, SizeOfExport(*saved)->bytes);
  done = 0;
  ASSERT_TRUE(ImportFrom(files, kFile, "/d", 0, add).ok());
  EXPECT_EQ(done, SizeOfExport(*saved)->bytes);
  done = 0;
  ASSERT_TRUE(saved->VerifyAll(add).ok());
  EXPECT_GT(done, saved->data_bytes());  // headers too
}

// Tensors of all types, longer than a piece and than what is written of it at a time, some under other names, some left out.
TEST(TensorExport, ConvertsAndRenamesPieceByPiece) {
  for (const size_t elements : {size_t{1000}, size_t{700'001}}) {
    const MadeUpModel model(3, elements);
    SimFiles files;
    SaveMadeUp(model, files, 3);
    const auto saved = SavedCheckpoint::Open(files, kSaved);
    ASSERT_TRUE(saved.ok());
    for (const weft_dtype_t to :
         {WEFT_FLOAT64, WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16, WEFT_FLOAT8_E4M3}) {
      SCOPED_TRACE(StrCat(elements, " elements as ", ElementType(to).name()));
      ExportRules rules{.floats_as = to};
      MadeUpModel expected = model;
      rules.names[model.tensors[0].name] = std::nullopt;
      rules.names[model.tensors[1].name] = "another/name";
      expected.tensors[1].name = "another/name";
      for (size_t i = 0; i < model.tensors.size(); ++i) {
        SavedTensor& tensor = expected.tensors[i];
        const std::string& values = model.contents[i][WEFT_SHARD_STATE_VALUE];
        if (!CanConvert(tensor.dtype, to)) continue;
        std::string& converted = expected.contents[i][WEFT_SHARD_STATE_VALUE];
        converted.assign(tensor.count() * DtypeSize(to), '\0');
        Convert(tensor.dtype, values.data(), to, converted.data(), tensor.count());
        tensor.dtype = to;
      }
      expected.tensors.erase(expected.tensors.begin());
      expected.contents.erase(expected.contents.begin());
      size_t done = 0;
      const std::string file = StrCat(kFile, elements, ElementType(to).name());
      const auto add = [&](size_t bytes) {
        done += bytes;
      };
      ASSERT_TRUE(ExportTensors(*saved, files, file, add, rules).ok());
      EXPECT_EQ(DifferenceOfFile(files.Contents(file), expected), "");
      const auto size = SizeOfExport(*saved, rules);
      ASSERT_TRUE(size.ok());
      EXPECT_EQ(done, size->bytes);
      EXPECT_EQ(size->tensors, expected.tensors.size());
    }
  }
}

TEST(TensorExport, NeverReplacesAFile) {
  const MadeUpModel model(1);
  SimFiles files;
  SaveMadeUp(model, files, 2);
  ASSERT_TRUE(WriteFileAtomically(files, kFile, "mine").ok());
  const absl::Status exported = Export(files);
  EXPECT_EQ(ResultOf(exported), WEFT_INVALID_ARGUMENT);
  EXPECT_THAT(std::string(exported.message()), HasSubstr("exists already"));
  EXPECT_EQ(files.Contents(kFile), "mine");
  const auto saved = SavedCheckpoint::Open(files, kSaved);
  ASSERT_TRUE(saved.ok());
  EXPECT_FALSE(ExportTensors(*saved, files, "/c").ok());
  EXPECT_FALSE(ExportTensors(*saved, files, "/none/x").ok());
}

TEST(TensorExport, OfADamagedCheckpointLeavesNothing) {
  const MadeUpModel model(1, 4);
  SimFiles files;
  SaveMadeUp(model, files, 2);
  for (const std::string& path : files.Paths()) {
    for (size_t at = 0; at < files.Contents(path).size(); at += 17) {
      files.Corrupt(path, at, 4);
      const absl::Status exported = Export(files);
      files.Corrupt(path, at, 4);
      EXPECT_EQ(ResultOf(exported), WEFT_CORRUPT) << path << " at " << at << ": " << exported;
      EXPECT_THAT(std::string(exported.message()), HasSubstr("/c/step-00000007"));
      const auto names = files.List("/");
      ASSERT_TRUE(names.ok());
      ASSERT_THAT(*names, ElementsAre("c"));
    }
  }
  EXPECT_TRUE(Export(files).ok());
}

TEST(TensorExport, CutOffAtAnyCallIsWholeOrNothing) {
  const MadeUpModel model(1, 4);
  SimFiles files;
  SaveMadeUp(model, files, 3);
  for (int k = 1;; ++k) {
    for (const bool dies : {false, true}) {
      const std::unique_ptr<SimFiles> disk = files.Copy();
      if (dies)
        disk->DieAt(k);
      else
        disk->FailAt(k, EIO);
      const absl::Status exported = Export(*disk);
      SCOPED_TRACE(disk->what());
      const bool struck = disk->struck();
      disk->ForEachCrashState(20, static_cast<uint64_t>(k),
                              [&](SimFiles& left, const std::string& what) {
                                SCOPED_TRACE(what);
                                const auto names = left.List("/");
                                ASSERT_TRUE(names.ok());
                                const bool there = names->back() == kFile + 1;
                                EXPECT_TRUE(there || !exported.ok());
                                if (there) {
                                  EXPECT_EQ(DifferenceOfFile(left.Contents(kFile), model), "");
                                }
                              });
      disk->Revive();
      // Another one does what this one did not.
      if (!disk->Open(kFile).ok()) {
        EXPECT_TRUE(Export(*disk).ok());
      }
      EXPECT_EQ(DifferenceOfFile(disk->Contents(kFile), model), "");
      const auto names = disk->List("/");
      ASSERT_TRUE(names.ok());
      EXPECT_THAT(*names, ElementsAre("c", kFile + 1));
      if (!struck) return;
    }
    ASSERT_LT(k, 1000);
  }
}

// ---- import --------------------------------------------------------------------------------------

TEST(TensorImport, FitsAnyNumberOfRanks) {
  const MadeUpModel model(3);
  SimFiles files;
  SaveMadeUp(model, files, 2);
  ASSERT_TRUE(Export(files).ok());
  const auto path = ImportFrom(files, kFile, "/d", 12);
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, "/d/step-00000012");
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    MadeUpRanks to(model, ranks, 13);
    to.Clear();
    const absl::Status restored = to.Restore(files, *path, WEFT_SHARD_STATE_VALUES);
    ASSERT_TRUE(restored.ok()) << restored;
    EXPECT_EQ(to.Difference(WEFT_SHARD_STATE_VALUES), "");
  }
  const auto saved = SavedCheckpoint::Open(files, *path);
  ASSERT_TRUE(saved.ok());
  EXPECT_TRUE(saved->VerifyAll().ok());
  EXPECT_EQ(saved->manifest().ranks, 1);
  EXPECT_EQ(saved->manifest().step, 12);
  EXPECT_THAT(saved->manifest().scalars, IsEmpty());
  // Exported again it is the file that it came from.
  const std::string file = files.Contents(kFile);
  ASSERT_TRUE(files.Remove(kFile).ok());
  ASSERT_TRUE(Export(files, *path).ok());
  EXPECT_EQ(DifferenceOfFile(files.Contents(kFile), model), "");
  EXPECT_EQ(files.Contents(kFile).size(), file.size());
}

TEST(TensorImport, IsTheLatestOfItsDirectoryAndTouchesNoOther) {
  const MadeUpModel model(3);
  SimFiles files;
  SaveMadeUp(model, files, 2);
  ASSERT_TRUE(Export(files).ok());
  const auto path = ImportFrom(files, kFile, "/c", 0);
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(*path, "/c/step-00000000.r1");
  const auto all = ListCheckpoints(files, "/c");
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 2u);
  EXPECT_TRUE(all->back().committed);
  EXPECT_EQ(all->back().name, (CheckpointName{1, 0}));
  MadeUpRanks ranks(model, 3);
  ranks.Clear();
  EXPECT_TRUE(ranks.Restore(files, kSaved).ok());
}

// A file of that header and so much data, imported; what is said. Nothing is left if it is refused.
std::string Import(const std::string& json, size_t data_bytes) {
  std::string text(8, '\0');
  text[0] = static_cast<char>(json.size() & 0xff);
  text[1] = static_cast<char>(json.size() >> 8);
  SimFiles files;
  EXPECT_TRUE(WriteFileAtomically(files, kFile, text + json + std::string(data_bytes, 'x')).ok());
  const auto imported = ImportFrom(files, kFile, "/d", 0);
  if (imported.ok()) return "";
  const auto all = ListCheckpoints(files, "/d");
  EXPECT_TRUE(all.ok());
  EXPECT_THAT(all->size(), 0u);
  const std::string message(imported.status().message());
  EXPECT_NE(ResultOf(imported.status()), WEFT_SUCCESS);
  return message;
}

TEST(TensorImport, ReadsWhatOthersWriteAndNothingElse) {
  // As Hugging Face's: metadata, no alignment, an order of its own.
  EXPECT_EQ(
      Import(
          R"({"__metadata__":{"format":"pt","x":"y"},"b":{"dtype":"F16","shape":[3],"data_offsets":[1,7]},)"
          R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"c":{"dtype":"F32","shape":[],"data_offsets":[7,11]}}   )",
          11),
      "");
  for (const char* const type : {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3"})
    EXPECT_EQ(
        Import(StrCat(R"({"a":{"dtype":")", type, R"(","shape":[2],"data_offsets":[0,2]}})"), 2),
        "");
  for (const char* const type : {"F64", "I64", "U64"})
    EXPECT_EQ(
        Import(StrCat(R"({"a":{"dtype":")", type, R"(","shape":[1],"data_offsets":[0,8]}})"), 8),
        "");
  EXPECT_EQ(Import("{}", 0), "");
  // Types that weft cannot compute with are kept.
  for (const char* const type : {"I16", "U16", "F16", "BF16"})
    EXPECT_EQ(
        Import(StrCat(R"({"a":{"dtype":")", type, R"(","shape":[4],"data_offsets":[0,8]}})"), 8),
        "");
  for (const char* const type : {"F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"})
    EXPECT_EQ(
        Import(StrCat(R"({"a":{"dtype":")", type, R"(","shape":[3],"data_offsets":[0,3]}})"), 3),
        "");
  EXPECT_EQ(Import(R"({"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}})", 8), "");
  // Elements of less than a byte, and types of tomorrow.
  for (const char* const type : {"F4", "F6_E2M3", "F6_E3M2", "F128", "f32", ""}) {
    EXPECT_THAT(
        Import(StrCat(R"({"a.b":{"dtype":")", type, R"(","shape":[2],"data_offsets":[0,1]}})"), 1),
        AllOf(HasSubstr(kFile), HasSubstr(StrCat("tensor a.b of type \"", type, "\""))));
  }
  EXPECT_THAT(Import(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7),
              HasSubstr(kFile));
  EXPECT_THAT(Import(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
              HasSubstr("hole"));
  // The format takes it, a checkpoint does not: found before it is committed.
  EXPECT_THAT(
      Import(R"({"a":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]}})", 0),
      HasSubstr("number"));
}

TEST(TensorImport, RefusesOtherFilesAndSteps) {
  SimFiles files;
  for (const std::string& text : {std::string(), std::string("x"), std::string(8, '\0'),
                                  std::string(100, '\xff'), std::string(100, '{')}) {
    if (files.Open(kFile).ok()) {
      ASSERT_TRUE(files.Remove(kFile).ok());
    }
    ASSERT_TRUE(WriteFileAtomically(files, kFile, text).ok());
    const auto imported = ImportFrom(files, kFile, "/d", 0);
    EXPECT_EQ(ResultOf(imported.status()), WEFT_CORRUPT) << imported.status();
    EXPECT_THAT(std::string(imported.status().message()), HasSubstr("safetensors"));
  }
  ASSERT_TRUE(files.Remove(kFile).ok());
  ASSERT_TRUE(WriteFileAtomically(files, kFile, std::string("\2\0\0\0\0\0\0\0{}", 10)).ok());
  EXPECT_EQ(ResultOf(ImportFrom(files, kFile, "/d", -1).status()), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(ImportFrom(files, kFile, "/d", kCheckpointStepMax + 1).status()),
            WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(absl::IsNotFound(ImportFrom(files, "/none", "/d", 0).status()));
}

TEST(TensorImport, CutOffAtAnyCallIsWholeOrNoCheckpoint) {
  const MadeUpModel model(1, 4);
  SimFiles files;
  SaveMadeUp(model, files, 2);
  ASSERT_TRUE(Export(files).ok());
  for (int k = 1;; ++k) {
    for (const bool dies : {false, true}) {
      const std::unique_ptr<SimFiles> disk = files.Copy();
      if (dies)
        disk->DieAt(k);
      else
        disk->FailAt(k, ENOSPC);
      const auto imported = ImportFrom(*disk, kFile, "/c", 9);
      SCOPED_TRACE(disk->what());
      const bool struck = disk->struck();
      const auto look = [&](SimFiles& left) {
        const auto all = ListCheckpoints(left, "/c");
        ASSERT_TRUE(all.ok());
        bool there = false;
        for (const CatalogEntry& entry : *all) {
          if (entry.name.step != 9 || !entry.committed) continue;
          there = true;
          MadeUpRanks ranks(model, 3);
          ranks.Clear();
          ASSERT_TRUE(
              ranks
                  .Restore(left, JoinPath("/c", DirectoryName(entry.name)), WEFT_SHARD_STATE_VALUES)
                  .ok());
          EXPECT_EQ(ranks.Difference(WEFT_SHARD_STATE_VALUES), "");
        }
        EXPECT_TRUE(there || !imported.ok());
      };
      disk->ForEachCrashState(20, static_cast<uint64_t>(k),
                              [&](SimFiles& left, const std::string& what) {
                                SCOPED_TRACE(what);
                                look(left);
                              });
      disk->Revive();
      look(*disk);
      // A failure that is told of leaves nothing, and a death what the next save removes.
      const auto all = ListCheckpoints(*disk, "/c");
      ASSERT_TRUE(all.ok());
      if (!dies) {
        EXPECT_EQ(all->size(), imported.ok() ? 2u : 1u);
      }
      EXPECT_TRUE(ImportFrom(*disk, kFile, "/c", 10).ok());
      if (!struck) return;
    }
    ASSERT_LT(k, 1000);
  }
}

}  // namespace
}  // namespace weft::test::tensor_file_test

// The texts of the format: what is written is read back, and nothing else is believed.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "base/wire.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/catalog.h"
#include "shard/checkpoint/checkpoint_names.h"
#include "shard/checkpoint/manifest.h"
#include "shard/checkpoint/safetensors.h"
#include "shard/checkpoint/saved_tensor.h"
#include "shard/checkpoint/sealed_text.h"

namespace weft::format_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CheckpointNames, AreReadBackAndNothingElseIs) {
  for (const CheckpointName& name : {CheckpointName{0, 0}, CheckpointName{0, 120},
                                     CheckpointName{3, 7}, CheckpointName{12, 123'456'789'012}}) {
    EXPECT_EQ(ParseDirectoryName(DirectoryName(name)), name);
  }
  EXPECT_EQ(DirectoryName({0, 120}), "step-00000120");
  EXPECT_EQ(DirectoryName({2, 120}), "step-00000120.r2");
  for (const char* const other :
       {"", "step-", "step-120", "step-00000120.r0", "step-00000120.r", "step-00000120.r02",
        "step-00000120 ", "step--0000120", "step-00000120.r-1", "step-99999999999999999999",
        "Step-00000120"}) {
    EXPECT_EQ(ParseDirectoryName(other), std::nullopt) << other;
  }
  EXPECT_EQ(RankOfFailureName("failed-00003"), 3);
  EXPECT_EQ(RankOfFailureName("failed-3"), std::nullopt);
  EXPECT_EQ(RankOfFailureName("failed-00003.new"), std::nullopt);
}

TEST(CheckpointNames, ALaterRunComesAfterAnyStepOfAnEarlierOne) {
  EXPECT_LT((CheckpointName{0, 900}), (CheckpointName{1, 3}));
  EXPECT_LT((CheckpointName{1, 3}), (CheckpointName{1, 4}));
}

TEST(Catalog, KeepsTheLastOnesAndEveryMth) {
  const std::vector<CatalogEntry> all = {{{0, 10}, true}, {{0, 20}, true}, {{0, 30}, false},
                                         {{0, 40}, true}, {{1, 50}, true}, {{1, 60}, true},
                                         {{1, 70}, false}};
  const CheckpointName latest{1, 60};
  EXPECT_THAT(Outdated(all, latest, {.last = 2}),
              ElementsAre(CheckpointName{0, 10}, CheckpointName{0, 20}, CheckpointName{0, 40}));
  EXPECT_THAT(Outdated(all, latest, {.last = 1, .every = 20}),
              ElementsAre(CheckpointName{0, 10}, CheckpointName{1, 50}));
  EXPECT_THAT(Outdated(all, latest, {}), ElementsAre());
  EXPECT_THAT(Outdated(all, {0, 10}, {.last = 1}), ElementsAre());
  EXPECT_THAT(Remains(all, latest), ElementsAre(CheckpointName{0, 30}));
}

TEST(SavedTensor, FindsTheFirstElementThatNobodyHas) {
  SavedTensor tensor{.shape = {10}, .cuts = {{0, 0, 4}, {1, 4, 10}}};
  EXPECT_EQ(FirstMissing(tensor), 10u);
  tensor.cuts = {{1, 5, 10}, {0, 0, 4}};
  EXPECT_EQ(FirstMissing(tensor), 4u);
  tensor.cuts = {{0, 0, 7}, {1, 2, 3}, {2, 6, 10}};
  EXPECT_EQ(FirstMissing(tensor), 10u);
  tensor.cuts = {};
  EXPECT_EQ(FirstMissing(tensor), 0u);
}

// ---- safetensors ---------------------------------------------------------------------------------

std::vector<SafetensorsEntry> Entries() {
  return {{.name = "a", .dtype = WEFT_FLOAT64, .shape = {2, 3}, .begin = 0, .end = 48},
          {.name = "b \"c\"", .dtype = WEFT_BFLOAT16, .shape = {}, .begin = 48, .end = 50},
          {.name = "d", .dtype = WEFT_BOOL, .shape = {0, 7}, .begin = 50, .end = 50},
          {.name = "e", .dtype = WEFT_FLOAT8_E4M3, .shape = {3}, .begin = 50, .end = 53}};
}

// A header of that text, and what reading it in a file with so much data says.
std::string Complaint(const std::string& json, size_t data_bytes) {
  WireWriter header;
  header.U64(json.size());
  header.Bytes(json);
  const std::string text = header.Take();
  const auto read = ReadSafetensorsHeader(text, text.size() + data_bytes);
  return read.ok() ? "" : std::string(read.status().message());
}

TEST(Safetensors, AreReadBack) {
  const auto header = SafetensorsHeader(Entries());
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->size() % 8, 0u);
  const auto layout = ReadSafetensorsHeader(*header, header->size() + 53);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->entries, Entries());
  EXPECT_EQ(layout->data_begin, header->size());
  for (size_t bytes = 0; bytes < header->size(); ++bytes)
    EXPECT_FALSE(ReadSafetensorsHeader(header->substr(0, bytes), header->size() + 53).ok())
        << bytes;
}

TEST(Safetensors, RefusesHolesOverlapsAndWrongSizes) {
  EXPECT_EQ(Complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8), "");
  EXPECT_THAT(Complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9),
              HasSubstr("8 bytes of tensors, so that the file would have 70, and the file has 71"));
  EXPECT_THAT(Complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 5),
              HasSubstr("would have 70, and the file has 67; was it cut off?"));
  EXPECT_THAT(Complaint(R"({"a":3})", 0), HasSubstr("member \"a\" that is no object"));
  EXPECT_THAT(Complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
              HasSubstr("hole"));
  EXPECT_THAT(Complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
              HasSubstr("fill"));
  EXPECT_THAT(
      Complaint(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
          6),
      HasSubstr("overlap"));
  EXPECT_THAT(Complaint(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8),
              HasSubstr("F31"));
  EXPECT_THAT(Complaint(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
              HasSubstr("number"));
  EXPECT_THAT(Complaint(R"({"a":{"dtype":"F32","shape":[2]}})", 8), HasSubstr("data_offsets"));
  // Other readers take the first of two, or the last.
  EXPECT_THAT(
      Complaint(
          R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
          4),
      HasSubstr("two members \"a\" in one object"));
  EXPECT_THAT(
      Complaint(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
      HasSubstr("two members \"dtype\""));
  EXPECT_THAT(Complaint("[]", 0), HasSubstr("object"));
  EXPECT_THAT(Complaint("{", 0), HasSubstr("object"));
}

TEST(Safetensors, RefusesNumbersThatNoMemoryCanHold) {
  EXPECT_THAT(
      Complaint(R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
      HasSubstr("fill"));
  EXPECT_THAT(
      Complaint(R"({"a":{"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,8]}})", 8),
      HasSubstr("fill"));
  EXPECT_THAT(
      Complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551608,0]}})", 8),
      HasSubstr("number"));
  // Whoever copies such a value, or releases it, level by level in calls runs out of stack.
  constexpr size_t kLevels = 200'000;
  EXPECT_THAT(Complaint("{\"a\":" + std::string(kLevels, '[') + std::string(kLevels, ']') + "}", 0),
              HasSubstr("no object"));
  std::string header(8, '\xff');
  EXPECT_FALSE(SafetensorsHeaderBytes(header, 1000).ok());
  EXPECT_FALSE(SafetensorsHeaderBytes("", 0).ok());
  const std::string whole = *SafetensorsHeader(Entries());
  EXPECT_THAT(
      std::string(SafetensorsHeaderBytes(whole, 100).status().message()),
      HasSubstr(StrCat("is to end at byte ", whole.size(), ", and the file has 100 bytes")));
}

// ---- records and manifests -----------------------------------------------------------------------

RankRecord Record() {
  return {.job = 0x0123456789abcdef,
          .step = 120,
          .rank = 1,
          .ranks = 3,
          .file_bytes = kCheckpointChunkBytes + 1,
          .checksums = {1, 0xffffffff},
          .tensors = {{.name = "w",
                       .shape = {4, 5},
                       .dtype = WEFT_FLOAT16,
                       .kinds = WEFT_SHARD_STATE_ALL,
                       .cuts = {{1, 3, 20}},
                       .optimizer = WEFT_OPTIMIZER_LAMB},
                      {.name = "s",
                       .shape = {},
                       .kinds = WEFT_SHARD_STATE_VALUES,
                       .cuts = {{1, 0, 1}},
                       .frozen = true}},
          .scalars = {{"",
                       {.struct_size = sizeof(weft_shard_state_scalars_t),
                        .update_count = 5,
                        .loss_scale = 1.0 / 3}}},
          .optimizers = {{"",
                          {{.kind = WEFT_OPTIMIZER_LAMB,
                            .numbers = {{"beta1", 0.9}, {"weight_decay", 1.0 / 3}}},
                           {.kind = WEFT_OPTIMIZER_SGD, .numbers = {}}}}},
          .values = {{.name = "rng", .rank = 1, .bytes = std::string("\0\xff\n", 3)},
                     {.name = "large", .rank = 1, .place = ValuePlace{0, 5000, 7}},
                     {.name = "larger", .rank = 1, .place = ValuePlace{5000, 6000, 8}},
                     {.name = "empty"}}};
}

TEST(Manifest, RecordsAreReadBack) {
  const RankRecord record = Record();
  const std::string text = RecordText(record);
  const auto read = ReadRecord("done-00001.json", text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(RecordText(*read), text);
  EXPECT_EQ(read->job, record.job);
  EXPECT_EQ(read->checksums, record.checksums);
  EXPECT_EQ(read->tensors[0].cuts, record.tensors[0].cuts);
  EXPECT_EQ(read->tensors[0].kinds, record.tensors[0].kinds);
  EXPECT_EQ(read->scalars.at("").loss_scale, 1.0 / 3);
  EXPECT_EQ(read->values[0].bytes, record.values[0].bytes);
  EXPECT_EQ(read->values[2].place, record.values[2].place);
  EXPECT_EQ(read->optimizers, record.optimizers);
  EXPECT_EQ(read->tensors[0].optimizer, WEFT_OPTIMIZER_LAMB);
  EXPECT_EQ(read->tensors[1].optimizer, std::nullopt);
  EXPECT_TRUE(read->tensors[1].frozen);
}

Manifest SmallManifest() {
  Manifest manifest{
      .job = 7, .step = 3, .ranks = 2, .records = {{10, 11}, {12, 13}}, .config = {14, 15}};
  manifest.tensors = Record().tensors;
  manifest.tensors[0].cuts = {{0, 0, 3}, {1, 3, 20}};
  manifest.scalars = Record().scalars;
  manifest.optimizers = Record().optimizers;
  manifest.values = Record().values;
  return manifest;
}

TEST(Manifest, IsReadBack) {
  const std::string text = ManifestText(SmallManifest());
  const auto read = ReadManifest("manifest.json", text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ManifestText(*read), text);
}

TEST(Manifest, EveryFlippedByteIsFoundAndEveryCut) {
  const std::string texts[] = {ManifestText(SmallManifest()), RecordText(Record())};
  for (const std::string& text : texts) {
    for (size_t i = 0; i < text.size(); ++i) {
      for (const int bits : {1, 0x20, 0x80, 0xff}) {
        std::string flipped = text;
        flipped[i] = static_cast<char>(flipped[i] ^ bits);
        EXPECT_EQ(ResultOf(CheckSeal("x", flipped)), WEFT_CORRUPT) << i;
      }
      EXPECT_FALSE(CheckSeal("x", text.substr(0, i)).ok()) << i;
      EXPECT_FALSE(CheckSeal("x", text.substr(i + 1)).ok()) << i;
    }
    EXPECT_FALSE(CheckSeal("x", text + "\n").ok());
  }
}

// Whoever can write a seal may still write nonsense.
TEST(Manifest, WhatIsOutOfBoundsIsRefusedUnderAnySeal) {
  std::string open = ManifestText(SmallManifest());
  open.resize(open.rfind(",\"crc32c\""));
  const auto complaint = [&](const std::string& from, const std::string& to) {
    std::string text = open;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto read = ReadManifest("manifest.json", Sealed(text));
    return read.ok() ? "" : std::string(read.status().message());
  };
  EXPECT_EQ(complaint("\"version\":2", "\"version\":2"), "");
  EXPECT_THAT(complaint("\"version\":2", "\"version\":3"), HasSubstr("newer"));
  EXPECT_THAT(complaint("\"version\":2", "\"version\":0"), HasSubstr("version 0"));
  // Whatever tensors of a newer version are like.
  EXPECT_THAT(complaint("\"version\":2", "\"version\":3,\"tensors\":[{}]"),
              HasSubstr("two members"));
  EXPECT_THAT(complaint("\"ranks\":2", "\"ranks\":2,\"ranks\":2"),
              HasSubstr("two members \"ranks\""));
  EXPECT_THAT(complaint("\"optimizers\":", "\"other\":"), HasSubstr("optimizers"));
  EXPECT_THAT(complaint("\"optimizer\":\"lamb\"", "\"optimizer\":\"sam\""), HasSubstr("sam"));
  EXPECT_THAT(complaint("\"frozen\":true", "\"frozen\":1"), HasSubstr("frozen"));
  EXPECT_THAT(complaint("\"name\":\"s\"", "\"name\":\"w\""), HasSubstr("two tensors called w"));
  EXPECT_THAT(complaint("\"name\":\"larger\"", "\"name\":\"large\""),
              HasSubstr("two values called large of one rank"));
  EXPECT_THAT(complaint("\"begin\":5000", "\"begin\":5001"), HasSubstr("hole"));
  EXPECT_THAT(complaint("\"begin\":5000", "\"begin\":4999"), HasSubstr("overlap"));
  EXPECT_THAT(complaint("\"bytes\":6000", "\"bytes\":16777217"), HasSubstr("number"));
  EXPECT_THAT(complaint("[0,0,3]", "[0,0,2]"), HasSubstr("no rank that has element 2 of tensor w"));
  EXPECT_THAT(complaint("{\"name\":\"s\"", "7,{\"name\":\"s\""), HasSubstr("no object"));
  EXPECT_THAT(complaint("weft-checkpoint", "other"), HasSubstr("format"));
  EXPECT_THAT(complaint("\"ranks\":2", "\"ranks\":3"), HasSubstr("list of 3"));
  EXPECT_THAT(complaint("\"ranks\":2", "\"ranks\":4294967298"), HasSubstr("number"));
  EXPECT_THAT(complaint("\"shape\":[4,5]", "\"shape\":[4,9223372036854775807]"),
              HasSubstr("number"));
  EXPECT_THAT(complaint("\"shape\":[4,5]", "\"shape\":[4294967296,4294967296]"),
              HasSubstr("no memory"));
  // Each count is a number, and the bytes of all states are none.
  EXPECT_THAT(complaint("\"shape\":[4,5]", "\"shape\":[4611686018427387904]"),
              HasSubstr("no memory"));
  EXPECT_THAT(complaint("[1,3,20]", "[1,3,21]"), HasSubstr("number"));
  EXPECT_THAT(complaint("[1,3,20]", "[2,3,20]"), HasSubstr("cut"));
  EXPECT_THAT(complaint("[1,3,20]", "[1,20,3]"), HasSubstr("cut"));
  EXPECT_THAT(complaint("[1,3,20]", "[1,3,20],[0,0,3]"), HasSubstr("order"));
  // More than there are ranks: a rank may have several.
  EXPECT_EQ(complaint("[1,3,20]", "[1,3,20],[1,4,5],[1,6,20]"), "");
  EXPECT_THAT(complaint("\"moment1\"", "\"moment3\""), HasSubstr("moment3"));
  EXPECT_THAT(complaint("\"rank\":1", "\"rank\":2"), HasSubstr("value"));
  EXPECT_THAT(complaint("\"base64\":\"", "\"base64\":\"*"), HasSubstr("base 64"));
  EXPECT_THAT(complaint("\"step\":3", "\"step\":-3"), HasSubstr("number"));
  EXPECT_THAT(complaint("\"step\":3,", ""), HasSubstr("step"));
}

}  // namespace
}  // namespace weft::format_test

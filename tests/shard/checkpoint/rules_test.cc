// Checkpoints that are loaded into another model than they were saved from: other names, other types, some of the tensors.
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/convert.h"
#include "shard/checkpoint/restore.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "tests/shard/checkpoint/made_up_state.h"
#include "tests/sim/sim_files.h"

namespace weft::test::rules_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kPath = "/c/step-00000007";

// State that is not in memory for its reader: it is written by calls.
class ElsewhereState : public MadeUpState {
 public:
  using MadeUpState::MadeUpState;

  absl::StatusOr<StatePart> Part(size_t tensor, weft_shard_state_kind_t kind) override {
    WEFT_ASSIGN_OR_RETURN(StatePart part, MadeUpState::Part(tensor, kind));
    part.data = nullptr;
    return part;
  }

  absl::Status Write(size_t tensor, weft_shard_state_kind_t kind, size_t begin, size_t count,
                     const void* from) override {
    WEFT_ASSIGN_OR_RETURN(const StatePart part, MadeUpState::Part(tensor, kind));
    const size_t element = DtypeSize(tensors()[tensor].DtypeOf(kind));
    std::memcpy(static_cast<char*>(part.data) + (begin - part.begin) * element, from,
                count * element);
    return absl::OkStatus();
  }
};

// What `from` has as values, as of another type.
std::string Converted(const std::string& from, weft_dtype_t from_type, weft_dtype_t to_type) {
  const size_t count = from.size() / DtypeSize(ElementType(from_type));
  std::string to(count * DtypeSize(ElementType(to_type)), '\0');
  Convert(from_type, from.data(), to_type, to.data(), count);
  return to;
}

// The saved model with one tensor of another name, two of another type, one that it has not, and one that it lacks.
struct OtherModel : MadeUpModel {
  explicit OtherModel(const MadeUpModel& saved) : MadeUpModel(saved) {
    tensors[0].dtype = WEFT_FLOAT32;
    tensors[0].kinds = WEFT_SHARD_STATE_VALUES;
    contents[0][0] = Converted(saved.contents[0][0], WEFT_BFLOAT16, WEFT_FLOAT32);
    tensors[1].name = "layers.0.weight";
    tensors[1].dtype = WEFT_FLOAT16;
    contents[1][0] = Converted(saved.contents[1][0], WEFT_FLOAT32, WEFT_FLOAT16);
    tensors[5].name = "new.head";
    tensors[5].shape = {3, 11};
    contents[5][0] = std::string(33 * 8, 'k');
  }
};

const MatchRules kRules = {
    .names = {{"layers.0.weight", "blocks.0.weight"}}, .partial = true, .convert = true};

class CheckpointRules : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(MadeUpRanks(saved_model_, 3).Save(files_, "/c", {.step = 7}).ok());
  }

  // One cut of `cuts` of it, restored; what differs then.
  template <typename State>
  std::string RestoredDifference(int cut, int cuts) {
    const auto saved = SavedCheckpoint::Open(files_, kPath);
    State state(other_, cut, cuts, 3);
    const std::vector<NamedSource> sources = {{"", &state}};
    State kept(other_, cut, cuts, 3);
    state.Clear();
    // What the checkpoint has not stays as it is.
    const auto from = kept.MadeUpState::Part(5, WEFT_SHARD_STATE_VALUE);
    const auto to = state.MadeUpState::Part(5, WEFT_SHARD_STATE_VALUE);
    if (from->count > 0) std::memcpy(to->data, from->data, from->count * 8);
    EXPECT_TRUE(CheckFits(*saved, sources, WEFT_SHARD_STATE_VALUES, kRules).ok());
    const absl::Status restored =
        Restore(*saved, sources, WEFT_SHARD_STATE_VALUES, nullptr, kRules);
    EXPECT_TRUE(restored.ok()) << restored;
    return state.Difference(WEFT_SHARD_STATE_VALUES);
  }

  std::string Said(const MadeUpModel& model, const MatchRules& rules,
                   uint32_t kinds = WEFT_SHARD_STATE_VALUES) {
    const auto saved = SavedCheckpoint::Open(files_, kPath);
    MadeUpState state(model, 0, 1, 0);
    const absl::Status fits = CheckFits(*saved, {{"", &state}}, kinds, rules);
    EXPECT_EQ(fits.ok() ? WEFT_INVALID_ARGUMENT : ResultOf(fits), WEFT_INVALID_ARGUMENT);
    return std::string(fits.message());
  }

  SimFiles files_;
  const MadeUpModel saved_model_{1, 3000};
  const OtherModel other_{saved_model_};
};

TEST_F(CheckpointRules, RenamedConvertedAndMissingTensorsOnAnyNumberOfRanks) {
  for (const int cuts : {1, 2, 3, 5, 8}) {
    for (int cut = 0; cut < cuts; ++cut) {
      EXPECT_EQ(RestoredDifference<MadeUpState>(cut, cuts), "") << cut << " of " << cuts;
      EXPECT_EQ(RestoredDifference<ElsewhereState>(cut, cuts), "") << cut << " of " << cuts;
    }
  }
}

TEST_F(CheckpointRules, WhatIsLeftOutIsListed) {
  const auto saved = SavedCheckpoint::Open(files_, kPath);
  MadeUpState state(other_, 0, 1, 0);
  const std::vector<NamedSource> sources = {{"", &state}};
  EXPECT_THAT(KeptTensors(*saved, sources, kRules), ElementsAre("new.head"));
  const std::vector<uint8_t> wanted = WantedTensors(*saved, sources, kRules);
  std::vector<std::string> unused;
  for (size_t i = 0; i < saved->manifest().tensors.size(); ++i) {
    if ((wanted[i / 8] >> i % 8 & 1) == 0) unused.push_back(saved->manifest().tensors[i].name);
  }
  EXPECT_THAT(unused, ElementsAre(saved_model_.tensors[5].name));
}

TEST_F(CheckpointRules, WhatNoRuleAllowsIsRefusedByName) {
  MatchRules rules = kRules;
  EXPECT_EQ(Said(other_, rules), "");
  rules.partial = false;
  EXPECT_THAT(Said(other_, rules), HasSubstr("has no tensor new.head, of shape [3, 11]"));
  rules.names["new.head"] = std::nullopt;  // it is meant to keep its values
  EXPECT_EQ(Said(other_, rules), "");
  rules = kRules;
  rules.convert = false;
  EXPECT_THAT(Said(other_, rules),
              AllOf(HasSubstr("has tensor embed.weight as BF16, and this model has it as F32"),
                    HasSubstr("WEFT_CHECKPOINT_CONVERT")));
  // A name that was given must be there, also of a part.
  rules = kRules;
  rules.names["layers.0.weight"] = "blocks.9.weight";
  EXPECT_THAT(
      Said(other_, rules),
      HasSubstr("has no tensor blocks.9.weight, which layers.0.weight is to be taken from"));
  // Another shape is another model.
  rules = kRules;
  rules.names["new.head"] = saved_model_.tensors[5].name;
  EXPECT_THAT(Said(other_, rules), HasSubstr("with shape [3001], and this model"));
  // Numbers of no fractions are not converted.
  OtherModel mask(saved_model_);
  mask.tensors[3].dtype = WEFT_FLOAT32;
  EXPECT_THAT(Said(mask, kRules), HasSubstr("has tensor blocks.0.mask as BOOL"));
}

TEST_F(CheckpointRules, NamesAreForAllState) {
  MadeUpModel renamed = saved_model_;
  MatchRules rules;
  for (SavedTensor& tensor : renamed.tensors) {
    rules.names[StrCat("new.", tensor.name)] = tensor.name;
    tensor.name = StrCat("new.", tensor.name);
  }
  const auto saved = SavedCheckpoint::Open(files_, kPath);
  for (const int cut : {0, 1, 2}) {
    MadeUpState state(renamed, cut, 3, 2);
    state.Clear();
    const std::vector<NamedSource> sources = {{"", &state}};
    ASSERT_TRUE(CheckFits(*saved, sources, WEFT_SHARD_STATE_ALL, rules).ok());
    ASSERT_TRUE(Restore(*saved, sources, WEFT_SHARD_STATE_ALL, nullptr, rules).ok());
    EXPECT_EQ(state.Difference(WEFT_SHARD_STATE_ALL), "");
  }
}

}  // namespace
}  // namespace weft::test::rules_test

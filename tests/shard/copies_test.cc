// Copies that have to be equal, of weights and of optimizer state: initial values, verify, verify_steps.
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::copies_test {
namespace {

using testing::HasSubstr;

constexpr weft_shard_preset_t kPresets[] = {
    WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,        WEFT_SHARD_ZERO2, WEFT_SHARD_GRAD_OP,
    WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HPZ,   WEFT_SHARD_FRACTION};

// The small model without trainable float64, and a unit of which every rank owns a part.
std::vector<ModelParam> Model() {
  std::vector<ModelParam> model = SmallModel();
  for (ModelParam& param : model) {
    if (param.dtype == WEFT_FLOAT64) param.dtype = WEFT_FLOAT32;
  }
  model.push_back({"tail", "tail.weight", {61, 37}, WEFT_FLOAT32});
  model.push_back({"tail", "tail.half", {63, 41}, WEFT_BFLOAT16});
  model.push_back({"tail", "tail.frozen", {59, 43}, WEFT_FLOAT32, true});
  return model;
}

int IndexOf(const std::vector<ModelParam>& model, std::string_view name) {
  for (size_t i = 0; i < model.size(); ++i) {
    if (model[i].name == name) return static_cast<int>(i);
  }
  ADD_FAILURE() << name;
  return 0;
}

struct Setting {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  std::vector<int> axes = {};
  weft_optimizer_kind_t kind = WEFT_OPTIMIZER_ADAMW;
  int64_t verify_steps = 0;
};

// A finalized context on one rank, and its steps.
class Trainee {
 public:
  Trainee(std::unique_ptr<Context> context, Scenario scenario, int rank)
      : context_(std::move(context)), scenario_(scenario), rank_(rank) {}

  static absl::StatusOr<Trainee> Make(const std::shared_ptr<ProcessGroup>& group,
                                      const Setting& setting, int rank) {
    WEFT_ASSIGN_OR_RETURN(auto context,
                          MakeContext(group,
                                      {.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 2048},
                                       .verify_steps = setting.verify_steps},
                                      setting.axes));
    WEFT_RETURN_IF_ERROR(context->SetOptimizer({.kind = setting.kind}));
    WEFT_RETURN_IF_ERROR(Declare(*context, Model(), PlacementOf(setting.preset)));
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    Trainee trainee(std::move(context), {.ranks = group->size(), .missing_percent = 5}, rank);
    WEFT_RETURN_IF_ERROR(trainee.Load());
    return trainee;
  }

  Context& context() { return *context_; }

  // Up to finish.
  absl::Status Reduce() { return RunStep(*context_, model_, scenario_, rank_, step_++).status(); }

  absl::Status Update() {
    return context_
        ->OptimizerStep({.struct_size = sizeof(weft_shard_update_t), .learning_rate = 0.01})
        .status();
  }

  absl::Status Step() {
    WEFT_RETURN_IF_ERROR(Reduce());
    WEFT_RETURN_IF_ERROR(Update());
    return context_->StepEnd();
  }

  // Flips one bit, which no rounding hides, of what this rank keeps of a param or of its reduced gradient.
  absl::Status Flip(const std::string& param, bool gradient = false) {
    WEFT_ASSIGN_OR_RETURN(const auto part, context_->OwnPart(IndexOf(model_, param)));
    void* const memory = gradient ? part.first.grad : part.first.data;
    EXPECT_GT(part.first.count, 0u) << param << " on rank " << rank_;
    if (part.first.count > 0) static_cast<char*>(memory)[2] ^= 0x40;
    return absl::OkStatus();
  }

 private:
  absl::Status Load() {
    for (size_t p = 0; p < model_.size(); ++p) {
      Elements values;
      for (size_t i = 0; i < model_[p].count(); ++i)
        values.push_back(scenario_.Gradient(model_[p].dtype, 1000, 0, 0, static_cast<int>(p), i));
      std::vector<char> memory(values.size() * DtypeSize(model_[p].dtype));
      WriteElements(model_[p].dtype, values, memory.data());
      WEFT_RETURN_IF_ERROR(context_->Load(static_cast<int>(p), memory.data(), Context::kEveryRank));
    }
    return absl::OkStatus();
  }

  std::unique_ptr<Context> context_;
  std::vector<ModelParam> model_ = Model();
  Scenario scenario_;
  int rank_ = 0;
  int step_ = 0;
};

void ExpectMismatch(const absl::Status& status, int outlier, const std::string& text) {
  EXPECT_EQ(ResultOf(status), WEFT_MISMATCH) << status;
  EXPECT_EQ(FieldsOf(status).rank, outlier);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

// A copy that drifts away on rank `outlier` of `ranks`, and what every rank must be told.
struct Drift {
  Setting setting;
  int ranks = 3;
  std::string param = "tail.weight";
  int outlier = 0;
  std::string text;
};

std::vector<Drift> Drifts() {
  std::vector<Drift> drifts;
  const auto add = [&](weft_shard_preset_t preset, const char* param) {
    for (const auto& [outlier, others] : {std::pair(0, "ranks 1, 2"), std::pair(2, "ranks 0, 1")}) {
      drifts.push_back(
          {{.preset = preset},
           3,
           param,
           outlier,
           StrCat("parameter ", param, ": rank ", outlier, " has other values than ", others)});
    }
  };
  add(WEFT_SHARD_NO_SHARD, "tail.weight");
  add(WEFT_SHARD_NO_SHARD, "tail.frozen");
  // What is updated in parts is the same again after an update: its owner's.
  add(WEFT_SHARD_ZERO1, "tail.frozen");
  add(WEFT_SHARD_ZERO2, "tail.frozen");
  for (const char* param : {"tail.weight", "tail.frozen"}) {
    for (const auto& [outlier, others] : {std::pair(0, "ranks 2, 4"), std::pair(3, "ranks 1, 5")}) {
      drifts.push_back(
          {{.preset = WEFT_SHARD_HYBRID_SHARD, .axes = {3, 2}},
           6,
           param,
           outlier,
           StrCat("parameter ", param, ": rank ", outlier, " has other values than ", others)});
    }
  }
  drifts.push_back({{.preset = WEFT_SHARD_NO_SHARD},
                    2,
                    "tail.weight",
                    1,
                    "parameter tail.weight: rank 0 and rank 1 have different values"});
  drifts.push_back({{.preset = WEFT_SHARD_HYBRID_SHARD, .axes = {2, 2}},
                    4,
                    "tail.weight",
                    3,
                    "parameter tail.weight: rank 1 and rank 3 have different values"});
  return drifts;
}

TEST(VerifySteps, NameTheRankWhoseCopyDrifts) {
  for (Drift drift : Drifts()) {
    SCOPED_TRACE(StrCat(PresetName(drift.setting.preset), " on ", drift.ranks, ", rank ",
                        drift.outlier, ", ", drift.param));
    drift.setting.verify_steps = 3;
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, drift.ranks,
        [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(Trainee trainee, Trainee::Make(group, drift.setting, rank));
          for (int step = 0; step < 4; ++step)
            WEFT_RETURN_IF_ERROR(trainee.Step());
          if (rank == drift.outlier) WEFT_RETURN_IF_ERROR(trainee.Flip(drift.param));
          WEFT_RETURN_IF_ERROR(trainee.Step());
          const absl::Status found = trainee.Step();
          ExpectMismatch(found, drift.outlier,
                         StrCat("step_end on group local: ", drift.text, "; "));
          // The step has ended and the context goes on.
          WEFT_RETURN_IF_ERROR(trainee.context().Broadcast(drift.outlier == 1 ? 0 : 1));
          WEFT_RETURN_IF_ERROR(trainee.context().Verify());
          for (int step = 0; step < 3; ++step)
            WEFT_RETURN_IF_ERROR(trainee.Step());
          return absl::OkStatus();
        }));
  }
}

TEST(VerifySteps, FindNothingInAnyPreset) {
  for (const weft_optimizer_kind_t kind : {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_LAMB}) {
    for (const weft_shard_preset_t preset : kPresets) {
      SCOPED_TRACE(PresetName(preset));
      const bool two_axes = preset == WEFT_SHARD_HYBRID_SHARD || preset == WEFT_SHARD_HPZ;
      const Setting setting{.preset = preset,
                            .axes = two_axes ? std::vector{2, 2} : std::vector<int>{},
                            .kind = kind,
                            .verify_steps = 1};
      ExpectAllOk(RunRanks(GroupKind::kLocal, two_axes ? 4 : 3,
                           [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                             WEFT_ASSIGN_OR_RETURN(Trainee trainee,
                                                   Trainee::Make(group, setting, rank));
                             for (int step = 0; step < (kSampled ? 4 : 20); ++step)
                               WEFT_RETURN_IF_ERROR(trainee.Step());
                             return absl::OkStatus();
                           }));
    }
  }
}

// Evaluations do not count.
TEST(VerifySteps, CountTrainingSteps) {
  ExpectAllOk(RunRanks(
      GroupKind::kReference, 3, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(Trainee trainee, Trainee::Make(group, {.verify_steps = 2}, rank));
        if (rank == 2) WEFT_RETURN_IF_ERROR(trainee.Flip("tail.frozen"));
        WEFT_RETURN_IF_ERROR(trainee.Step());
        for (int i = 0; i < 3; ++i) {
          WEFT_RETURN_IF_ERROR(trainee.context().StepBegin(WEFT_SHARD_EVAL, 0));
          WEFT_RETURN_IF_ERROR(trainee.context().StepEnd());
        }
        ExpectMismatch(trainee.Step(), 2, "parameter tail.frozen: rank 2 has other values");
        return absl::OkStatus();
      }));
}

TEST(VerifySteps, AreAgreedOnInFinalize) {
  for (const absl::Status& status :
       RunRanks(GroupKind::kLocal, 3, [](int rank, std::shared_ptr<ProcessGroup> group) {
         return Trainee::Make(group, {.verify_steps = rank == 0 ? 0 : 5}, rank).status();
       })) {
    ExpectMismatch(status, 0, "the context's config: rank 0 has");
    EXPECT_THAT(std::string(status.message()), HasSubstr("verify_steps 5"));
  }
}

// Params that rest whole and are updated in parts.
TEST(Verify, NamesTheRankWhoseCopyDiffersInAnyPresetThatRestsWhole) {
  for (const weft_shard_preset_t preset :
       {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2}) {
    for (const int outlier : {0, 3}) {
      SCOPED_TRACE(StrCat(PresetName(preset), ", rank ", outlier));
      ExpectAllOk(RunRanks(
          GroupKind::kReference, 4,
          [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            WEFT_ASSIGN_OR_RETURN(Trainee trainee, Trainee::Make(group, {.preset = preset}, rank));
            WEFT_RETURN_IF_ERROR(trainee.Step());
            WEFT_RETURN_IF_ERROR(trainee.context().Verify());  // updates have arrived, too
            if (rank == outlier) {
              WEFT_ASSIGN_OR_RETURN(const ParamView view,
                                    trainee.context().View(IndexOf(Model(), "tail.half")));
              static_cast<char*>(view.data)[0] ^= 1;
            }
            ExpectMismatch(
                trainee.context().Verify(), outlier,
                StrCat("verify on group reference: parameter tail.half: rank ", outlier,
                       " has other values than ranks ", outlier == 0 ? "1, 2, 3" : "0, 1, 2"));
            return absl::OkStatus();
          }));
    }
  }
}

// One rank updates from another gradient than the others; then its params are repaired, but not its moments.
TEST(Verify, NamesOptimizerStateThatDiffers) {
  const std::vector<std::pair<Setting, std::string>> cases = {
      {{.preset = WEFT_SHARD_NO_SHARD}, "rank 0 has other values than ranks 1, 2, 3, 4, 5"},
      {{.preset = WEFT_SHARD_HYBRID_SHARD, .axes = {3, 2}},
       "rank 0 has other values than ranks 2, 4"},
      {{.preset = WEFT_SHARD_HYBRID_SHARD, .axes = {3, 1, 2}},
       "rank 0 has other values than ranks 2, 4"}};
  for (const auto& [setting, text] : cases) {
    for (const char* param : {"tail.weight", "tail.half"}) {
      SCOPED_TRACE(StrCat(PresetName(setting.preset), ", ", param));
      ExpectAllOk(RunRanks(GroupKind::kLocal, 6,
                           [&, &setting = setting, &text = text](
                               int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                             WEFT_ASSIGN_OR_RETURN(Trainee trainee,
                                                   Trainee::Make(group, setting, rank));
                             WEFT_RETURN_IF_ERROR(trainee.Step());
                             WEFT_RETURN_IF_ERROR(trainee.Reduce());
                             if (rank == 0)
                               WEFT_RETURN_IF_ERROR(trainee.Flip(param, /*gradient=*/true));
                             WEFT_RETURN_IF_ERROR(trainee.Update());
                             WEFT_RETURN_IF_ERROR(trainee.context().StepEnd());
                             WEFT_RETURN_IF_ERROR(trainee.context().Broadcast(5));
                             ExpectMismatch(trainee.context().Verify(), 0,
                                            StrCat("optimizer state of parameter ", param, ": ",
                                                   text, "; go back to a checkpoint"));
                             return absl::OkStatus();
                           }));
    }
  }
}

TEST(Load, NamesTheRankWithOtherValues) {
  for (const int outlier : {0, 1}) {
    for (const absl::Status& status :
         RunRanks(GroupKind::kLocal, 3,
                  [outlier](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
                    WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "a", {3}).status());
                    WEFT_RETURN_IF_ERROR(context->Finalize().status());
                    const float values[3] = {1, 2, rank == outlier ? 4.0f : 3.0f};
                    return context->Load(0, values, Context::kEveryRank);
                  })) {
      ExpectMismatch(status, outlier,
                     StrCat("param_load on group local: parameter a.weight: rank ", outlier,
                            " has other values than ranks ", outlier == 0 ? "1, 2" : "0, 2",
                            "; make initial values from the same seed"));
    }
  }
}

}  // namespace
}  // namespace weft::copies_test

// Ranks of a context that wait for each other in different groups: named at once, whatever they do wrong; and programs that
// are right, however late their ranks and threads are, never.
#include "shard/step/wait_watch.h"

#include <chrono>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"
#include "tests/support/leak_check.h"

namespace weft::wait_watch_test {
namespace {

using testing::HasSubstr;
using Kind = Event::Kind;

// The contract says a second, the groups' deadline is 60 s: between the two is room for a busy machine.
constexpr int64_t kFoundNs = 20'000'000'000;

constexpr size_t kUnits = 5;

struct Case {
  weft_shard_preset_t preset = WEFT_SHARD_FULL_SHARD;
  int ranks = 2;
  std::vector<int> axes = {};
  ContextOptions options = {};
};

ContextOptions Options(ContextOptions options = {}) {
  options.average = false;
  options.limits = {.bucket_bytes = 1024, .first_bucket_bytes = 1024};
  return options;
}

std::vector<int> Forward() {
  return {0, 1, 2, 3, 4};
}

std::vector<int> Backward() {
  return {4, 3, 2, 1, 0};
}

// A good step, then one for which `script_of` says what each rank does.
std::vector<absl::Status> RunSteps(const Case& how,
                                   const std::function<Script(int rank)>& script_of) {
  const int64_t begun_ns = MonotonicNs();
  const std::vector<absl::Status> statuses =
      RunRanks(GroupKind::kLocal, how.ranks,
               [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                 WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, how.options, how.axes));
                 ExactModel model(*context, ExactUnits(kUnits, how.preset), rank, how.ranks);
                 WEFT_RETURN_IF_ERROR(model.Finalize().status());
                 WEFT_RETURN_IF_ERROR(model.Train(ScriptOf(Forward(), Backward())).status());
                 WEFT_RETURN_IF_ERROR(model.Train(script_of).status());
                 // Who got through the step meets those who did not.
                 return context->Verify();
               });
  EXPECT_LT(MonotonicNs() - begun_ns, kFoundNs);
  return statuses;
}

void ExpectMismatch(const std::vector<absl::Status>& statuses) {
  for (size_t rank = 0; rank < statuses.size(); ++rank)
    EXPECT_EQ(ResultOf(statuses[rank]), WEFT_MISMATCH) << "rank " << rank << ": " << statuses[rank];
}

// All were told of the difference, or it made none.
void ExpectAlike(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) {
    EXPECT_THAT(ResultOf(status), testing::AnyOf(WEFT_SUCCESS, WEFT_MISMATCH)) << status;
    EXPECT_EQ(ResultOf(status), ResultOf(statuses[0])) << status;
  }
}

// What follows "wait for each other", the same on all ranks.
void ExpectCycle(const std::vector<absl::Status>& statuses, const std::vector<std::string>& words) {
  ExpectMismatch(statuses);
  std::string first;
  for (const absl::Status& status : statuses) {
    const std::string text(status.message());
    const size_t begin = text.find("ranks wait for each other");
    ASSERT_NE(begin, std::string::npos) << text;
    if (first.empty()) first = text.substr(begin);
    EXPECT_EQ(text.substr(begin), first);
    for (const std::string& word : words)
      EXPECT_THAT(text, HasSubstr(word));
  }
}

TEST(WaitWatch, NamesARankThatHasFewerMicrobatches) {
  for (const auto accumulation : {WEFT_SHARD_LOCAL_THEN_REDUCE, WEFT_SHARD_REDUCE_EVERY}) {
    for (const int ranks : {2, 3, 4}) {
      for (const weft_shard_preset_t preset : {WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD}) {
        SCOPED_TRACE(StrCat(accumulation, ", ", ranks, " ranks, ", PresetName(preset)));
        const Case how{
            .preset = preset, .ranks = ranks, .options = Options({.accumulation = accumulation})};
        const std::vector<absl::Status> statuses = RunSteps(
            how, [](int rank) { return ScriptOf(Forward(), Backward(), rank == 1 ? 1 : 3); });
        ExpectMismatch(statuses);
        // Of FULL_SHARD, whose schedule keeps the unit with which forward ends, the gathers differ before.
        if (preset == WEFT_SHARD_FULL_SHARD) continue;
        ExpectCycle(statuses, {"(pre_forward unit0", "rank 1 (finish", " waits for rank ",
                               "on group local.gather)", "on group local)", "#"});
        // It is the outlier as soon as all others have been seen to wait.
        for (const absl::Status& status : statuses)
          EXPECT_THAT(FieldsOf(status).rank, testing::AnyOf(-1, 1)) << status;
      }
    }
  }
}

TEST(WaitWatch, NamesARankThatEndsBackwardEarly) {
  for (const int prefetch : {0, 1}) {
    for (const int ranks : {2, 3, 4}) {
      SCOPED_TRACE(StrCat(prefetch, " ahead, ", ranks, " ranks"));
      const Case how{.ranks = ranks, .options = Options({.prefetch = prefetch})};
      ExpectCycle(
          RunSteps(how,
                   [](int rank) {
                     return ScriptOf(Forward(), rank == 1 ? std::vector<int>{4, 3, 2} : Backward());
                   }),
          {"(pre_backward unit", "rank 1 (", "on group local.gather)"});
    }
  }
}

// Where all units stay, gathers may be started before orders differ; then it makes no difference.
TEST(WaitWatch, NamesARankWithAnotherOrderWhereUnitsStay) {
  struct Stay {
    weft_shard_preset_t preset;
    size_t budget;
    bool all;
  };

  for (const Stay stay :
       {Stay{WEFT_SHARD_FULL_SHARD, 0, false}, Stay{WEFT_SHARD_FRACTION, 4096, false},
        Stay{WEFT_SHARD_FRACTION, 0, true}, Stay{WEFT_SHARD_GRAD_OP, 0, true}}) {
    SCOPED_TRACE(StrCat(PresetName(stay.preset), ", budget ", stay.budget));
    const Case how{
        .preset = stay.preset, .ranks = 3, .options = Options({.budget_bytes = stay.budget})};
    const std::vector<absl::Status> statuses = RunSteps(how, [](int rank) {
      return rank == 1 ? ScriptOf({0, 3, 2, 1, 4}, {4, 1, 2, 3, 0})
                       : ScriptOf({0, 1, 2, 3, 4}, {4, 3, 2, 1, 0});
    });
    stay.all ? ExpectAlike(statuses) : ExpectMismatch(statuses);
  }
}

TEST(WaitWatch, NamesARankWithAnotherOrderOnTwoAxes) {
  for (const weft_shard_preset_t preset : {WEFT_SHARD_HPZ, WEFT_SHARD_HYBRID_SHARD}) {
    for (const int outlier : {0, 1, 3}) {
      SCOPED_TRACE(StrCat(PresetName(preset), ", rank ", outlier));
      const Case how{.preset = preset, .ranks = 4, .axes = {2, 2}, .options = Options()};
      ExpectMismatch(RunSteps(how, [outlier](int rank) {
        return rank == outlier ? ScriptOf({0, 1, 2, 3, 4}, {4, 1, 2, 3, 0})
                               : ScriptOf({0, 1, 2, 3, 4}, {4, 3, 2, 1, 0});
      }));
    }
  }
}

TEST(WaitWatch, NamesARankThatUnshardsWhileAnotherFinishes) {
  const Case how{.ranks = 2, .options = Options({.prefetch = 0})};
  const std::vector<absl::Status> statuses = RunSteps(how, [](int rank) {
    Script script = ScriptOf(Forward(), Backward());
    if (rank == 1) return script;
    const auto end = script.end() - 2;  // microbatch_end, finish
    script.insert(end, {{Kind::kUnshard, 2}, {Kind::kReshard, 2}});
    return script;
  });
  ExpectCycle(statuses,
              {"waiting for the parameters of unit unit2: all_gather_v of ", "rank 1 (finish"});
}

// One rank of one step leaves units out, uses some twice, swaps some: the others learn of it, or it makes no difference.
TEST(WaitWatch, LetsNoDifferenceEndAtTheDeadline) {
  const uint64_t first_seed = test::TestSeed(1);
  const uint64_t seeds = kSampled ? 8 : 40;
  for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    std::mt19937_64 random(seed);
    const bool axes = random() % 3 == 0;
    constexpr weft_shard_preset_t kFlat[] = {WEFT_SHARD_FULL_SHARD, WEFT_SHARD_GRAD_OP,
                                             WEFT_SHARD_FRACTION};
    const Case how{
        .preset = axes ? (random() % 2 == 0 ? WEFT_SHARD_HPZ : WEFT_SHARD_HYBRID_SHARD)
                       : kFlat[random() % 3],
        .ranks = axes ? 4 : 2 + static_cast<int>(random() % 3),
        .axes = axes ? std::vector<int>{2, 2} : std::vector<int>{},
        .options = Options({.accumulation = random() % 2 == 0 ? WEFT_SHARD_LOCAL_THEN_REDUCE
                                                              : WEFT_SHARD_REDUCE_EVERY,
                            .overlap = random() % 4 != 0,
                            .prefetch = static_cast<int>(random() % 3)})};
    std::vector<int> forward = Forward();
    const size_t at = random() % (forward.size() - 1);
    switch (random() % 3) {
      case 0:
        forward.erase(forward.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        forward.insert(forward.begin() + static_cast<std::ptrdiff_t>(at), forward[at]);
        break;
      default:
        std::swap(forward[at], forward[at + 1]);
    }
    const int outlier = static_cast<int>(random() % static_cast<size_t>(how.ranks));
    std::vector<int> backward(forward.rbegin(), forward.rend());
    if (random() % 3 == 0) backward.pop_back();
    const int outlier_microbatches = 1 + static_cast<int>(random() % 2);
    SCOPED_TRACE(StrCat("seed ", seed, ": ", PresetName(how.preset), ", ", how.ranks,
                        " ranks, rank ", outlier));
    const std::vector<absl::Status> statuses = RunSteps(how, [&](int rank) {
      return rank == outlier ? ScriptOf(forward, backward, outlier_microbatches)
                             : ScriptOf(Forward(), Backward(), 2);
    });
    ExpectAlike(statuses);
  }
}

// Late by several looks, anywhere.
TEST(WaitWatch, AccusesNobodyWhoIsLate) {
  const uint64_t first_seed = test::TestSeed(1);
  const uint64_t seeds = kSampled ? 3 : 8;
  constexpr weft_shard_preset_t kPresets[] = {WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HPZ,
                                              WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_ZERO2};
  for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    SCOPED_TRACE(seed);
    const weft_shard_preset_t preset = kPresets[seed % 4];
    const ContextOptions options =
        Options({.accumulation =
                     seed / 4 % 2 == 0 ? WEFT_SHARD_REDUCE_EVERY : WEFT_SHARD_LOCAL_THEN_REDUCE});
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 4, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options, {2, 2}));
          ExactModel model(*context, ExactUnits(kUnits, preset), rank, 4);
          WEFT_RETURN_IF_ERROR(model.Finalize().status());
          std::mt19937_64 random(8 * seed + static_cast<uint64_t>(rank));
          model.pause = [&] {
            if (random() % 60 != 0) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(250 + random() % 250));
          };
          for (uint64_t step = 0; step < 2; ++step) {
            const Script script = ScriptOf(Shuffled(kUnits, seed), Shuffled(kUnits, seed + 1), 2);
            WEFT_RETURN_IF_ERROR(model.Train(script).status());
          }
          return model.ExpectWeights();
        }));
  }
}

// Rank 0 waits for rank 1 in a gather, rank 1 for rank 0 in a reduction; but a gradient that another thread of rank 0 is
// still to give begins it.
TEST(WaitWatch, AccusesNobodyWhileAThreadOwesAGradient) {
  const auto body = [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, Options({.prefetch = 0})));
    const Placement placement = PlacementOf(WEFT_SHARD_FULL_SHARD);
    for (const char* name : {"a", "b", "c"}) {
      WEFT_RETURN_IF_ERROR(
          AddUnitWithParam(*context, name, {300}, WEFT_FLOAT32, false, placement).status());
    }
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    const std::vector<float> gradient(300, 1.0f);
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_TRAIN, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    for (const int unit : {0, 1, 2}) {
      WEFT_RETURN_IF_ERROR(context->PreForward(unit));
      WEFT_RETURN_IF_ERROR(context->PostForward(unit));
    }
    WEFT_RETURN_IF_ERROR(context->PreBackward(2));
    std::thread giver;
    absl::Status given;
    if (rank == 0) {
      giver = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(700));
        given = context->GradReady(2, gradient.data());
      });
    } else {
      WEFT_RETURN_IF_ERROR(context->GradReady(2, gradient.data()));
      WEFT_RETURN_IF_ERROR(context->PostBackward(2));
      WEFT_RETURN_IF_ERROR(context->ReduceWait(2));
    }
    const absl::Status entered = context->PreBackward(1);
    if (giver.joinable()) giver.join();
    WEFT_RETURN_IF_ERROR(entered);
    WEFT_RETURN_IF_ERROR(given);
    if (rank == 0) WEFT_RETURN_IF_ERROR(context->PostBackward(2));
    WEFT_RETURN_IF_ERROR(context->GradReady(1, gradient.data()));
    WEFT_RETURN_IF_ERROR(context->PostBackward(1));
    WEFT_RETURN_IF_ERROR(context->PreBackward(0));
    WEFT_RETURN_IF_ERROR(context->GradReady(0, gradient.data()));
    WEFT_RETURN_IF_ERROR(context->PostBackward(0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchEnd());
    WEFT_RETURN_IF_ERROR(context->Finish().status());
    return context->StepEnd();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
}

}  // namespace
}  // namespace weft::wait_watch_test

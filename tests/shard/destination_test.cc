// unshard_start with memory of the caller's: params are there until reshard, whatever the other ranks pass, and on whatever schedule.
//
// The seed is printed with a failure.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "shard/layout/placement.h"
#include "tests/shard/exact_model.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"
#include "tests/shard/stable_views.h"

namespace weft::destination_test {
namespace {

using Kind = Event::Kind;
using Random = std::mt19937_64;

constexpr weft_shard_views_t kViews[] = {WEFT_SHARD_VIEWS_MOVE, WEFT_SHARD_VIEWS_STABLE,
                                         WEFT_SHARD_VIEWS_APART};

// 64-byte aligned, with a guard behind it.
class Destination {
 public:
  explicit Destination(size_t bytes)
      : bytes_(bytes), memory_(bytes + 2 * kAlignment, static_cast<std::byte>(0x5a)) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = memory_.data() + (kAlignment - address % kAlignment) % kAlignment;
  }

  UnshardDestination get() const { return {.data = data_, .bytes = bytes_}; }

  std::byte* data() const { return data_; }

  bool GuardIsWhole() const {
    return std::all_of(data_ + bytes_, data_ + bytes_ + kAlignment / 2,
                       [](std::byte byte) { return byte == static_cast<std::byte>(0x5a); });
  }

 private:
  static constexpr size_t kAlignment = 64;

  size_t bytes_;
  std::vector<std::byte> memory_;
  std::byte* data_ = nullptr;
};

struct Made {
  std::unique_ptr<Context> context;
  std::unique_ptr<ExactModel> model;
};

absl::StatusOr<Made> Make(std::shared_ptr<ProcessGroup> group, int rank, int ranks,
                          weft_shard_preset_t preset, weft_shard_views_t views) {
  Made made;
  WEFT_ASSIGN_OR_RETURN(made.context, MakeContext(std::move(group), OptionsOf(views)));
  made.model = std::make_unique<ExactModel>(*made.context, ExactUnits(4, preset), rank, ranks);
  WEFT_RETURN_IF_ERROR(made.model->Finalize().status());
  return made;
}

const void* DataOf(Context& context, int param) {
  const absl::StatusOr<ParamView> view = context.View(param);
  EXPECT_TRUE(view.ok()) << view.status();
  return view.ok() ? view->data : nullptr;
}

TEST(Destination, HasTheParamsFromWaitToReshardAndIsThenLeftAlone) {
  for (const weft_shard_views_t views : kViews) {
    for (const int ranks : {1, 2, 3, 4}) {
      ExpectAllOk(
          RunRanks(GroupKind::kLocal, ranks,
                   [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                     WEFT_ASSIGN_OR_RETURN(Made made,
                                           Make(group, rank, ranks, WEFT_SHARD_FULL_SHARD, views));
                     Context& context = *made.context;
                     const Destination own(context.params().UnshardedBytes(2));
                     for (int step = 0; step < 3; ++step) {
                       // Another rank passes none.
                       const bool passes = rank % 2 == step % 2;
                       WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_EVAL, 1));
                       WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
                       WEFT_RETURN_IF_ERROR(
                           context.UnshardStart(2, passes ? own.get() : UnshardDestination()));
                       WEFT_RETURN_IF_ERROR(context.UnshardWait(2));
                       const void* const data = DataOf(context, 2);
                       EXPECT_EQ(data == own.data(), passes);
                       std::vector<float> values(200);
                       std::memcpy(values.data(), data, values.size() * sizeof(float));
                       WEFT_RETURN_IF_ERROR(context.Reshard(2));
                       if (passes) {
                         EXPECT_EQ(std::memcmp(values.data(), own.data(), 200 * sizeof(float)), 0);
                         EXPECT_TRUE(own.GuardIsWhole());
                       }
                       EXPECT_EQ(ResultOf(context.View(2).status()), WEFT_BAD_STATE);
                       WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
                       WEFT_RETURN_IF_ERROR(context.Finish().status());
                       WEFT_RETURN_IF_ERROR(context.StepEnd());
                     }
                     return absl::OkStatus();
                   }));
    }
  }
}

TEST(Destination, IsRefusedWithoutAnythingSent) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(Made made,
                              Make(group, rank, 2, WEFT_SHARD_FULL_SHARD, WEFT_SHARD_VIEWS_MOVE));
        Context& context = *made.context;
        const size_t bytes = context.params().UnshardedBytes(1);
        EXPECT_GE(bytes, 200 * sizeof(float));
        const Destination own(bytes + 64);
        WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_EVAL, 0));
        WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
        const auto refused = [&](void* data, size_t size, const char* text) {
          if (rank == 0) return;  // nothing is sent, so the others need not know
          const absl::Status status = context.UnshardStart(1, {.data = data, .bytes = size});
          EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT) << status;
          EXPECT_NE(status.message().find(text), absl::string_view::npos) << status;
        };
        refused(own.data(), bytes - 1, "the unit needs");
        refused(own.data(), 0, "destination has 0 bytes");
        refused(own.data() + 4, bytes, "not at a multiple of 64");
        refused(nullptr, bytes, "destination is NULL but bytes is");
        WEFT_RETURN_IF_ERROR(context.UnshardStart(1, own.get()));
        WEFT_RETURN_IF_ERROR(context.UnshardWait(1));
        EXPECT_EQ(DataOf(context, 1), own.data());
        WEFT_RETURN_IF_ERROR(context.Reshard(1));
        WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
        return context.StepEnd();
      }));
}

TEST(Destination, IsRefusedForParamsThatAreNotSharded) {
  for (const weft_shard_preset_t preset :
       {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2}) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(Made made, Make(group, rank, 2, preset, WEFT_SHARD_VIEWS_MOVE));
          Context& context = *made.context;
          EXPECT_EQ(context.params().UnshardedBytes(1), 0u);
          const Destination own(4096);
          WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_EVAL, 0));
          WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
          const absl::Status refused = context.UnshardStart(1, own.get());
          EXPECT_EQ(ResultOf(refused), WEFT_INVALID_ARGUMENT) << refused;
          EXPECT_NE(refused.message().find("are not sharded"), absl::string_view::npos) << refused;
          WEFT_RETURN_IF_ERROR(context.UnshardStart(1));
          WEFT_RETURN_IF_ERROR(context.UnshardWait(1));
          WEFT_RETURN_IF_ERROR(context.Reshard(1));
          WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
          return context.StepEnd();
        }));
  }
}

// The view of forward stays where it was; the destination gets a copy.
TEST(Destination, GetsACopyOfParamsThatAreInUse) {
  for (const weft_shard_views_t views : kViews) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(Made made, Make(group, rank, 3, WEFT_SHARD_FULL_SHARD, views));
          Context& context = *made.context;
          const Destination own(context.params().UnshardedBytes(0));
          WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_EVAL, 0));
          WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
          WEFT_RETURN_IF_ERROR(context.PreForward(0));
          const void* const before = DataOf(context, 0);
          WEFT_RETURN_IF_ERROR(context.UnshardStart(0, own.get()));
          EXPECT_EQ(DataOf(context, 0), before);
          WEFT_RETURN_IF_ERROR(context.UnshardWait(0));
          EXPECT_EQ(DataOf(context, 0), own.data());
          EXPECT_EQ(std::memcmp(before, own.data(), 200 * sizeof(float)), 0);
          WEFT_RETURN_IF_ERROR(context.Reshard(0));
          EXPECT_EQ(DataOf(context, 0), before);
          EXPECT_EQ(std::memcmp(before, own.data(), 200 * sizeof(float)), 0);
          WEFT_RETURN_IF_ERROR(context.PostForward(0));
          WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
          return context.StepEnd();
        }));
  }
}

// What forward goes on using moves to the pool, before the memory is the caller's again.
TEST(Destination, GivesBackWhatIsStillInUse) {
  for (const weft_shard_views_t views : kViews) {
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(Made made, Make(group, rank, 3, WEFT_SHARD_FULL_SHARD, views));
          Context& context = *made.context;
          const Destination own(context.params().UnshardedBytes(2));
          WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_EVAL, 0));
          WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
          WEFT_RETURN_IF_ERROR(context.UnshardStart(2, own.get()));
          WEFT_RETURN_IF_ERROR(context.UnshardWait(2));
          const std::vector<std::byte> values(own.data(), own.data() + 200 * sizeof(float));
          WEFT_RETURN_IF_ERROR(context.PreForward(2));
          EXPECT_EQ(DataOf(context, 2), own.data());
          WEFT_RETURN_IF_ERROR(context.Reshard(2));
          std::memset(own.data(), 0, 200 * sizeof(float));
          const void* const after = DataOf(context, 2);
          EXPECT_NE(after, own.data());
          EXPECT_EQ(std::memcmp(after, values.data(), values.size()), 0);
          WEFT_RETURN_IF_ERROR(context.PostForward(2));
          WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
          return context.StepEnd();
        }));
  }
}

// Not prefetched to a place of its own first: a schedule leaves what the program gathers to the program.
TEST(Destination, IsGatheredToInReplayedStepsToo) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 2, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(Made made,
                              Make(group, rank, 2, WEFT_SHARD_FULL_SHARD, WEFT_SHARD_VIEWS_MOVE));
        Context& context = *made.context;
        const Destination own(context.params().UnshardedBytes(1));
        made.model->destination = [&](int unit) {
          return unit == 1 ? own.get() : UnshardDestination();
        };
        int there = 0;
        made.model->seen = [&](int param, const void* data) {
          there += param == 1 && data == own.data() ? 1 : 0;
        };
        const Script script = {
            {Kind::kMicrobatchBegin, 1}, {Kind::kPreForward, 0},    {Kind::kPostForward, 0},
            {Kind::kUnshard, 1},         {Kind::kPreForward, 1},    {Kind::kPostForward, 1},
            {Kind::kReshard, 1},         {Kind::kMicrobatchEnd, 0}, {Kind::kFinish, 0}};
        for (int step = 0; step < 3; ++step) {
          there = 0;
          WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result, made.model->Eval(script, 3));
          EXPECT_EQ(result.replayed, step > 0 ? 1 : 0);
          EXPECT_EQ(there, 3);
        }
        return absl::OkStatus();
      }));
}

int Below(Random& random, int count) {
  return static_cast<int>(random() % static_cast<uint64_t>(count));
}

Script RandomProgram(Random& random, int units, bool train) {
  Script script = {{Kind::kMicrobatchBegin, 1}};
  for (const int unit : Shuffled(static_cast<size_t>(units), random())) {
    script.push_back({Kind::kPreForward, unit});
    script.push_back({Kind::kPostForward, unit});
  }
  for (const int unit :
       train ? Shuffled(static_cast<size_t>(units), random()) : std::vector<int>()) {
    script.push_back({Kind::kPreBackward, unit});
    script.push_back({Kind::kPostBackward, unit});
  }
  for (int unit = 0; unit < units; ++unit) {
    if (Below(random, 2) == 0) continue;
    const int begin = 1 + Below(random, static_cast<int>(script.size()));
    script.insert(script.begin() + begin, Event{Kind::kUnshard, unit});
    const int end = begin + 1 + Below(random, static_cast<int>(script.size()) - begin);
    script.insert(script.begin() + end, Event{Kind::kReshard, unit});
  }
  script.push_back({Kind::kMicrobatchEnd, 0});
  script.push_back({Kind::kFinish, 0});
  return script;
}

// Any rank passes a destination or none, each time; ExactModel compares what it reads, and the sums, with what they should be.
void ExpectRight(uint64_t seed) {
  Random random(Mix(seed));
  const int ranks = 1 + Below(random, 4);
  constexpr int kUnits = 5;
  const weft_shard_preset_t presets[] = {WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD,
                                         WEFT_SHARD_FRACTION, WEFT_SHARD_HPZ,
                                         WEFT_SHARD_HYBRID_SHARD};
  const weft_shard_preset_t preset = presets[Below(random, ranks == 4 ? 5 : 3)];
  ContextOptions options =
      OptionsOf(Below(random, 2) == 0 ? WEFT_SHARD_VIEWS_MOVE : WEFT_SHARD_VIEWS_APART);
  options.prefetch = Below(random, 3);
  const Script train = RandomProgram(random, kUnits, true);
  const Script eval = RandomProgram(random, kUnits, false);
  SCOPED_TRACE(StrCat("seed ", seed, ", ", ranks, " ranks, preset ", static_cast<int>(preset)));
  const std::vector<int> axes = ranks == 4 ? std::vector<int>{2, 2} : std::vector<int>{};
  ExpectAllOk(RunRanks(GroupKind::kLocal, ranks,
                       [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                         WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options, axes));
                         ExactModel model(*context, ExactUnits(kUnits, preset), rank, ranks);
                         WEFT_RETURN_IF_ERROR(model.Finalize().status());
                         std::vector<Destination> memory;
                         for (int unit = 0; unit < kUnits; ++unit)
                           memory.emplace_back(context->params().UnshardedBytes(unit));
                         Random own(Mix(seed * 100 + static_cast<uint64_t>(rank)));
                         model.destination = [&](int unit) {
                           return Below(own, 2) == 0 ? UnshardDestination()
                                                     : memory[static_cast<size_t>(unit)].get();
                         };
                         for (int step = 0; step < 3; ++step) {
                           WEFT_RETURN_IF_ERROR(model.Train(train).status());
                           WEFT_RETURN_IF_ERROR(model.Eval(eval).status());
                         }
                         for (const Destination& one : memory)
                           EXPECT_TRUE(one.GuardIsWhole());
                         return model.ExpectWeights();
                       }));
}

TEST(Destination, OfRandomRanksAndUnitsChangesNothing) {
  for (uint64_t seed = 1; seed <= (kSampled ? 15 : 60); ++seed) {
    ExpectRight(seed);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace weft::destination_test
